"""Warnings of ours, as Python's `warnings` has them."""

from __future__ import annotations


class PlanWarning(UserWarning):
    """Something about a plan that its user should know."""


class DoesNotFit(PlanWarning):
    """The best plan that was found does not fit the memory of the devices."""


class ClosedOverArrays(PlanWarning):
    """A function closes over large arrays, which become part of its program."""
