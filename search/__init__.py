"""Search over colour x resolution x axis (TOAST sections 4.1 to 4.4)."""
