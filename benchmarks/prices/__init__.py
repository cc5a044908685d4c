"""Whether prices are still what they were, to the last bit: `python -m benchmarks.prices check`."""
