"""How the time from module bytes to plan grows with layers, devices and sequence length."""
