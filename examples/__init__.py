"""Real steps to plan, in plain JAX; `python examples/gemma.py --help`."""
