"""Warnings of ours, as Python's `warnings` has them."""

from __future__ import annotations

import sys
import warnings


class PlanWarning(UserWarning):
    """Something about a plan that its user should know."""


class DoesNotFit(PlanWarning):
    """The best plan that was found does not fit the memory of the devices."""


class ClosedOverArrays(PlanWarning):
    """A function closes over large arrays, which become part of its program."""


def notify(message: str, kind: type[PlanWarning] = PlanWarning) -> None:
    """Warn at the line of the caller's own that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def _ours(module: str) -> bool:
    return module == "toast" or module.startswith("toast.")
