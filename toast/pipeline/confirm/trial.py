"""A plan that is put before the compiler, what became of it, and which of several is best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toast.aot import Verdict
from toast.costmodel.evaluator import Cost
from toast.plans.confirmation import Kind
from toast.search.problem import Found, Problem

EQUAL = 1e-6
"""Times that differ by less than this part are one, and the earlier plan is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan: a found state of a problem, and why it is proposed by which search (from 1)."""

    kind: Kind
    search: int
    problem: Problem
    found: Found

    @property
    def control(self) -> bool:
        """Whether it is a layout that any plan should beat."""
        return self.kind in ("data_parallel", "fully_sharded")

    @property
    def cost(self) -> Cost:
        """Its price, with refinements."""
        return self.problem.evaluator.cost(self.found.decisions)


@dataclass(slots=True, kw_only=True)
class ProposalTrial:
    """A proposal with its price and module, and the last thing that the compiler said of it.

    The module is empty where there was no time to write it. `memory_bytes` is what it may need.
    `overlap` says that its time is that of two streams.
    """

    proposal: Proposal
    cost: Cost
    module: bytes
    memory_bytes: int
    overlap: bool = False
    verdict: Verdict | None = None
    cached: bool = False
    note: str = ""

    @property
    def needed(self) -> int | None:
        """Bytes of one device, by the compiler."""
        return None if self.verdict is None else self.verdict.needed_bytes

    @property
    def fits(self) -> bool:
        """Whether the compiler took it, within the memory."""
        if self.verdict is None or self.verdict.refusal is not None:
            return False
        return (self.needed or 0) <= self.memory_bytes

    @property
    def whole(self) -> bool:
        """Whether it was compiled to the end."""
        return self.verdict is not None and not self.verdict.memory_only

    @property
    def measured(self) -> float | None:
        """Seconds of a step by the compiler; None where it gave none."""
        if self.verdict is None:
            return None
        return self.verdict.makespan_seconds if self.overlap else self.verdict.step_seconds

    @property
    def estimate(self) -> float:
        """Seconds of a step: measured, else as promised."""
        return self.promise if self.measured is None else self.measured

    @property
    def promise(self) -> float:
        """Seconds of a step by predicted computation and what is known of its collectives."""
        cost = self.cost
        if self.verdict is None or self.verdict.communication_seconds is None:
            return cost.seconds
        if self.overlap:
            return max(cost.compute, self.verdict.communication_seconds)
        return cost.compute + self.verdict.communication_seconds

    @property
    def bound(self) -> float:
        """Seconds that a step takes at least: its collectives, as compiled."""
        if self.verdict is None or self.verdict.memory is None:
            return 0.0
        return self.verdict.communication_seconds or 0.0


def best_of(trials: Iterable[ProposalTrial]) -> ProposalTrial | None:
    """The best trial: of those that fit the fastest compiled whole, else the fastest estimate.

    None where none fits. Of equally fast ones the first counts.
    """
    fitting = [trial for trial in trials if trial.fits]
    timed = [trial for trial in fitting if trial.whole and trial.measured is not None]
    found: ProposalTrial | None = None
    for trial in timed or fitting:
        if found is None or trial.estimate < found.estimate * (1 - EQUAL):
            found = trial
    return found
