"""The states of a job and which of them are final."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a job is; `CANCELLING` is a running job that was asked to stop."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
"""A job in one of these never changes again."""

CLAIMED = frozenset({State.RUNNING, State.CANCELLING})
"""A job in one of these belongs to a worker."""
