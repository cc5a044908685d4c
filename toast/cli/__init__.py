"""The command line: `toast plan`, `inspect`, `verify`, `serve`, `submit`, `devices`.

Exit codes: 0 done, 1 `verify` or `diff` found a difference, or `ci` something over its budget, 2
bad input, 3 nothing fits the memory (the best plan is still written), or `ci` could not plan a
model, 4 `verify` cannot tell, 130 interrupted.
"""

from __future__ import annotations

from toast.cli.app import app, main

__all__ = ["app", "main"]
