"""What a search reports while it runs, and what may stop it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

COMPILING = "compiling kernels, once: about 20 seconds"
"""The stage of a job that is the first to need the kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A snapshot of a job. `fraction` (0 to 1) is of the whole job, `seconds` since its start.

    `best_cost` is C(s), relative to the unsharded program, `best_bytes` its peak per device and
    `best_seconds` its step; 0 before anything is priced.
    `detail` says more of a stage that takes long, such as which plans are compiled.
    """

    stage: str
    fraction: float = 0.0
    rounds: int = 0
    rollouts: int = 0
    evaluations: int = 0
    best_cost: float = 1.0
    best_bytes: int = 0
    best_seconds: float = 0.0
    seconds: float = 0.0
    detail: str = ""


def _never() -> bool:
    return False


def _ignore(_: Progress) -> None:
    return None


@dataclass(slots=True, kw_only=True)
class Control:
    """How a search is watched and stopped: progress callback, cancel, and a time budget."""

    on_progress: Callable[[Progress], None] = _ignore
    cancelled: Callable[[], bool] = _never
    budget: float | None = None
    _start: float = field(default_factory=time.monotonic)

    def quiet(self) -> Control:
        """The same cancel, budget and start, and no reports."""
        return replace(self, on_progress=_ignore)

    def leave_out(self, since: float) -> None:
        """Take the time from `since` (of `elapsed`) to now off the budget: it was not searching."""
        if self.budget is not None:
            self.budget += self.elapsed() - since

    def share(self, part: float) -> Control:
        """The same cancel and reports, and so much of the time that is left of the budget."""
        if self.budget is None:
            return self
        spent = self.elapsed()
        return replace(self, budget=spent + max(0.0, self.budget - spent) * part)

    def elapsed(self) -> float:
        """Seconds since this control was made."""
        return time.monotonic() - self._start

    def stop_reason(self) -> str | None:
        """`cancelled` or `budget` where the search must stop now, else None."""
        if self.cancelled():
            return "cancelled"
        if self.budget is not None and self.elapsed() >= self.budget:
            return "budget"
        return None
