"""Our plan beside layouts by hand, other planners and XLA's own, judged by the compiled program."""

from __future__ import annotations
