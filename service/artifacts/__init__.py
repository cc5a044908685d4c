"""Files named by their SHA-256."""
