"""`python -m toast.cli` is `toast`."""

from __future__ import annotations

from toast.cli import main

main()
