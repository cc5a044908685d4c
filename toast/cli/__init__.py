"""The command line: `toast plan`, `inspect`, `verify`, `serve`, `submit`, `devices`.

Exit codes: 0 done, 1 the comparison of `verify` found a difference, 2 bad input, 3 nothing fits
the memory (the best plan is still written), 4 `verify` cannot tell, 130 interrupted.
"""

from __future__ import annotations

from toast.cli.app import app, main

__all__ = ["app", "main"]
