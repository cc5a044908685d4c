"""How far off the prices were for programs that no rule was made by."""
