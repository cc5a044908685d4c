"""How the settings of the tree search change what it finds."""
