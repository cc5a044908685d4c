"""What runs attempts: a process here for each, whatever that starts and wherever."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from toast.process.child import Child
from toast.process.confine import Confinement
from toast.process.outcome import EngineOutOfMemory, Outcome
from toast.process.runner import Limits
from toast.request.request import PlanRequest
from toast.service.settings import ServiceSettings
from toast.service.work.cgroups import Cgroup

SPARE = "--spare"
_ASK_GRACE, _TERM_GRACE = 20.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcess:
    """A worker process, its group where it has one, and how what became of it is read.

    `limits` are those that its parent keeps.
    """

    child: Child
    limits: Limits
    group: Cgroup | None = None
    read: Callable[[Outcome], Outcome] | None = None

    def close(self) -> None:
        """End the process and whatever it started."""
        self.child.kill()
        if self.group is not None:
            self.group.close()

    def explain(self, outcome: Outcome) -> Outcome:
        """The outcome, corrected where the kernel ended the process for its memory."""
        if self.read is not None:
            return self.read(outcome)
        if outcome.has_plan or self.group is None or not self.group.ran_out_of_memory():
            return outcome
        limit = self.limits.memory_bytes or 0
        error = EngineOutOfMemory(
            f"The engine used more memory than the limit of {limit / 2**20:,.0f} MiB.",
            "Allow more memory, or give the module without its large constants.",
        )
        return replace(outcome, status="out_of_memory", error=error)


class Launcher(ABC):
    """Starts workers. Call `start` in a thread that outlives what it starts.

    `confinement` is what is left to them, None where that is not known here.
    """

    confinement: Confinement | None = None

    @abstractmethod
    def start(self, argument: str) -> WorkerProcess:
        """A process for one directory, or (`SPARE`) one that waits for its directory."""

    def fitted(self, request: PlanRequest) -> PlanRequest:
        """The request as a worker of this kind is to run it."""
        return request

    def hand_over(self, directory: Path) -> None:  # noqa: B027 - most workers run as we do
        """Give the directory of an attempt, with what is in it, to the user of the workers."""


def limits_of(settings: ServiceSettings) -> Limits:
    """What the settings allow one attempt."""
    return Limits(
        deadline_s=settings.deadline,
        memory_bytes=settings.memory_limit,
        stall_s=settings.stall,
        ask_grace_s=min(_ASK_GRACE, max(0.5, settings.drain)),
        term_grace_s=min(_TERM_GRACE, max(0.5, settings.drain)),
    )
