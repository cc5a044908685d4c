"""Solves an instance within a time: exactly where it can, else by windows around a relaxation.

Reductions come first (`reduce.py`); they leave a few hundred nodes of instances with tens of
thousands. What is left goes to HiGHS: its linear relaxation is a bound, branch and bound the
answer. Where the edges have too many cells for that, the costliest are left out at first. The
strategies that the relaxation of this narrower instance uses make a small integer program. Its
answer is improved window by window, over all cells that a better answer could use.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.search.pairwise.beam import beam
from toast.search.pairwise.compact import Compact, compact
from toast.search.pairwise.highs import IntegerProgram, Solved
from toast.search.pairwise.instance import Instance, capped, score
from toast.search.pairwise.reduce import Reduced
from toast.search.pairwise.windows import improve

DIRECT = 100_000
"""Edge cells up to which branch and bound takes the whole instance at once."""
RELAX_SHARE = 0.4
"""Part of the time that a relaxation may take."""
EXACT_SHARE = 0.7
"""Part of the time that is left after the relaxation that branch and bound may take."""
WINDOW_SHARE = 0.65
"""Part of the time left that windows may take; a relaxation for the bound has the rest."""
STRICT = 100.0
"""Where memory may not be exceeded, windows price the whole limit at this many times the cost."""

Stopped = Callable[[], bool]
Report = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The best choice found (None: none within the limit), its cost, and a bound on every cost.

    `relaxation` says where the bound is from: `branch and bound`, `linear relaxation`, or `none`.
    `proved`: nothing is cheaper, or (without a choice) nothing is within the limit.
    """

    choice: list[int] | None
    cost: float
    bound: float
    relaxation: str
    proved: bool

    @property
    def gap(self) -> float:
        """How much cheaper a better answer could be, as a part of the cost."""
        if not math.isfinite(self.cost):
            return math.inf
        return max(0.0, self.cost - self.bound) / max(abs(self.cost), 1e-300)


def solve(
    instance: Instance,
    *,
    seconds: float,
    seed: int = 0,
    start: Sequence[int] | None = None,
    stopped: Stopped = lambda: False,
    report: Report = lambda _: None,
) -> Solution:
    """The best answer that `seconds` allow; `start` is a choice that it is at least as good as."""
    return _Solver(instance, time.monotonic() + seconds, seed, stopped, report).run(start)


class _Solver:
    def __init__(
        self, instance: Instance, end: float, seed: int, stopped: Stopped, report: Report
    ) -> None:
        self._instance = instance
        self._end, self._seed = end, seed
        self._stopped, self._report = stopped, report
        self._best: list[int] | None = None
        self._cost = math.inf
        self._bound, self._relaxation = -math.inf, "none"
        self._proved = False

    def run(self, start: Sequence[int] | None) -> Solution:
        if start is not None:
            self._take(list(start))
        reduced = Reduced(self._instance)
        if reduced.infeasible:
            self._proved = True
            self._raise(math.inf, "branch and bound")
        elif not reduced.nodes:
            only = reduced.lift({})
            self._take(only)
            found, self._proved = score(self._instance, only), True
            self._raise(found.cost if found.feasible else math.inf, "branch and bound")
        else:
            self._search(reduced)
        return self._answer()

    def _search(self, reduced: Reduced) -> None:
        c = compact(reduced)
        if len(c.cell) <= DIRECT:
            self._exactly(reduced, c)
        else:
            self._narrowly(c)
        if not self._proved:
            self._by_windows()

    def _exactly(self, reduced: Reduced, c: Compact) -> None:
        """Relaxation, then branch and bound, of all that is left."""
        program = IntegerProgram(c, reduced.excess, stopped=self._stopped)
        bound = program.relax(self._left() * RELAX_SHARE)
        self._raise(bound + reduced.constant, "linear relaxation")
        start = self._lowered(reduced)
        solved = program.solve(self._left() * EXACT_SHARE, start=start)
        self._adopt(reduced, solved)
        self._raise(solved.bound + reduced.constant, "branch and bound")
        self._proved = solved.proved
        if self._proved and self._best is not None:
            self._bound = self._cost

    def _narrowly(self, c: Compact) -> None:
        """A first answer from the cheaper cells alone, among what their relaxation uses."""
        cap = float(np.sort(c.cell[np.isfinite(c.cell)])[: 2 * DIRECT : 16][-1])
        reduced = Reduced(capped(self._instance, cap))
        if reduced.infeasible or not reduced.nodes:
            return
        narrow = compact(reduced)
        program = IntegerProgram(narrow, reduced.excess, stopped=self._stopped)
        bound = program.relax(self._left() * RELAX_SHARE)
        beyond = cap + self._instance.constant
        self._raise(min(bound + reduced.constant, beyond), "linear relaxation")
        used = program.shares()
        if used is None:
            return
        core = Reduced(_core(self._instance, reduced, narrow, used, cap))
        if not core.infeasible and core.nodes:
            small = IntegerProgram(compact(core), core.excess, stopped=self._stopped)
            self._adopt(core, small.solve(self._left() * RELAX_SHARE))

    def _by_windows(self) -> None:
        """Improve what there is over all cells that cost less than it does."""
        reduced = Reduced(capped(self._instance, self._cost))
        if reduced.infeasible or not reduced.nodes or self._left() <= 0:
            return
        c = compact(reduced)
        choice = self._lowered(reduced)
        price = reduced.excess
        if math.isinf(price):
            scale = self._cost if choice is not None else float(c.cell[np.isfinite(c.cell)].sum())
            price = STRICT * scale / max(float(c.capacity.max(initial=1.0)), 1.0)
        if choice is None:
            choice = beam(c, price, stopped=self._stopped)

        def report(found: Ints) -> None:
            self._adopt(reduced, Solved(choice=found, bound=-math.inf, proved=False))

        found, proved = improve(
            c,
            choice,
            price,
            seconds=self._left() * WINDOW_SHARE,
            seed=self._seed,
            stopped=self._stopped,
            report=report,
        )
        report(found)
        if proved and self._best is not None:
            self._proved = True
            self._raise(self._cost, "branch and bound")
        elif self._best is not None and self._relaxation != "branch and bound":
            bound = IntegerProgram(c, reduced.excess, stopped=self._stopped).relax(self._left())
            self._raise(min(bound + reduced.constant, self._cost), "linear relaxation")

    def _adopt(self, reduced: Reduced, solved: Solved) -> None:
        if solved.choice is not None:
            numbers = sorted(reduced.nodes)
            self._take(reduced.lift(dict(zip(numbers, solved.choice.tolist(), strict=True))))

    def _take(self, choice: list[int]) -> None:
        found = score(self._instance, choice)
        if found.feasible and found.cost < self._cost:
            self._best, self._cost = choice, found.cost
            self._report(found.cost)

    def _lowered(self, reduced: Reduced) -> Ints | None:
        if self._best is None:
            return None
        held = reduced.lower(self._best)
        return np.array([held[node] for node in sorted(held)], dtype=np.int64)

    def _raise(self, bound: float, relaxation: str) -> None:
        if bound > self._bound:
            self._bound, self._relaxation = bound, relaxation

    def _left(self) -> float:
        return self._end - time.monotonic()

    def _answer(self) -> Solution:
        return Solution(
            choice=self._best,
            cost=self._cost,
            bound=min(self._bound, self._cost) if self._best is not None else self._bound,
            relaxation=self._relaxation,
            proved=self._proved,
        )


def _core(instance: Instance, reduced: Reduced, c: Compact, used: Floats, cap: float) -> Instance:
    """The capped instance with the strategies alone that a fractional answer uses."""
    costs = list(instance.costs)
    for place, number in enumerate(sorted(reduced.nodes)):
        shares = used[c.start[place] : c.start[place + 1]]
        kept = reduced.nodes[number].keep[shares > 1e-6]
        cost = np.full(len(costs[number]), np.inf)
        cost[kept] = costs[number][kept]
        costs[number] = cost
    return capped(replace(instance, costs=tuple(costs)), cap)
