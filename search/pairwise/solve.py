"""Solves an instance within a time: a valid answer early, then better ones, exactly where it can.

Reductions come first (`reduce.py`); they leave a few hundred nodes of some instances with tens of
thousands, and some thousands of others. Prices of memory give a bound and first answers, searches
by forests better ones (`portfolio.py`). What then is left, without all that costs more than the
answer, goes to HiGHS where it is small enough: its linear relaxation is a bound, branch and bound
the answer. Where the edges have too many cells for that, the costliest are left out at first. The
strategies that the relaxation of this narrower instance uses make a small integer program. Its
answer is improved window by window, over all cells that a better answer could use. An instance with
too many nodes for windows has its forests until the time is over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.search.pairwise.compact import Compact, compact
from toast.search.pairwise.highs import IntegerProgram
from toast.search.pairwise.instance import Instance, capped, score
from toast.search.pairwise.portfolio import Portfolio
from toast.search.pairwise.proofs import BRANCHED, PRICED, RELAXED, Proof
from toast.search.pairwise.reduce import Reduced
from toast.search.pairwise.windows import improve

DIRECT = 100_000
"""Edge cells up to which branch and bound takes the whole instance at once."""
LARGE = 1_000
"""Nodes from which HiGHS is not asked where branch and bound cannot have the whole instance."""
REDUCE_SHARE = 0.25
"""Part of the time after which reductions stop as they are."""
FIRST_SHARE, FIRST_SECONDS = 0.1, 1.5
"""Part of the time that forests have before HiGHS, and how much at most where that is direct."""
TINY = 5_000
"""Edge cells up to which they have none."""
LIFT_SECONDS = 1e-5
"""What it takes to turn a choice for what is left into one for the instance and to score it, for
each node and each edge."""
RELAX_SHARE = 0.4
"""Part of the time that a relaxation may take."""
EXACT_SHARE = 0.7
"""Part of the time that is left after the relaxation that branch and bound may take."""
STRICT = 100.0
"""Where memory may not be exceeded, windows price the whole limit at this many times the cost."""

Stopped = Callable[[], bool]
Report = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The best choice found (None: none within the limit), its cost, and a bound on every cost.

    `relaxation` says what proves the bound; None where there is none.
    `proved`: nothing is cheaper, or (without a choice) nothing is within the limit.
    """

    choice: list[int] | None
    cost: float
    bound: float
    relaxation: Proof | None
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
    threads: int = 1,
    start: Sequence[int] | None = None,
    stopped: Stopped = lambda: False,
    report: Report = lambda _: None,
) -> Solution:
    """The best answer that `seconds` allow; `start` is a choice that it is at least as good as."""
    solver = _Solver(instance, seconds, seed, threads=threads, stopped=stopped, report=report)
    return solver.run(start)


class _Solver:
    def __init__(
        self,
        instance: Instance,
        seconds: float,
        seed: int,
        *,
        threads: int,
        stopped: Stopped,
        report: Report,
    ) -> None:
        self._instance = instance
        self._end, self._seed, self._threads = time.monotonic() + seconds, seed, threads
        self._stopped, self._report = stopped, report
        self._best: list[int] | None = None
        self._near: list[int] | None = None
        self._cost = math.inf
        self._bound = -math.inf
        self._relaxation: Proof | None = None
        self._proved = False

    def run(self, start: Sequence[int] | None) -> Solution:
        if start is not None:
            self._take(list(start))
        reduced = self._reduced(self._instance)
        if reduced.infeasible:
            self._proved = True
            self._raise(math.inf, BRANCHED)
        elif not reduced.nodes:
            only = reduced.lift({})
            self._take(only)
            found, self._proved = score(self._instance, only), True
            self._raise(found.cost if found.feasible else math.inf, BRANCHED)
        else:
            self._search(reduced)
        return self._answer()

    def _reduced(self, instance: Instance) -> Reduced:
        late = time.monotonic() + self._left() * REDUCE_SHARE
        return Reduced(instance, stopped=lambda: time.monotonic() > late or self._stopped())

    def _search(self, reduced: Reduced) -> None:
        c = compact(reduced)
        direct = len(c.cell) <= DIRECT
        if c.nodes >= LARGE and not direct:
            self._by_forests(reduced, c, self._left(), settle=False)
            return
        if len(c.cell) > TINY:
            seconds = self._left() * FIRST_SHARE
            seconds = min(seconds, FIRST_SECONDS) if direct else seconds
            self._by_forests(reduced, c, seconds, settle=True)
        if not self._proved:
            self._by_highs(reduced, c)
        if not self._proved:
            self._by_windows()

    def _by_forests(self, reduced: Reduced, c: Compact, seconds: float, *, settle: bool) -> None:
        """Prices of memory for a bound, and forests for answers, maybe until the prices settle."""

        def told(choice: Ints, cost: float) -> None:
            if self._best is None:
                self._adopt(reduced, choice)
            else:
                self._report(min(self._cost, cost + reduced.constant))

        portfolio = Portfolio(
            c,
            reduced.excess,
            seed=self._seed,
            start=self._lowered(reduced, self._best),
            stopped=self._late,
            report=told,
        )
        late = LIFT_SECONDS * (self._instance.nodes + len(self._instance.edges))
        end = min(time.monotonic() + seconds, self._end - late)
        portfolio.run(end, self._threads, settle=settle)
        if portfolio.choice is not None:
            self._adopt(reduced, portfolio.choice)
        self._near = _lifted(reduced, portfolio.near)
        self._raise(portfolio.bound + reduced.constant, PRICED)
        self._proved = portfolio.proved and (self._best is None) == math.isinf(portfolio.cost)

    def _by_highs(self, reduced: Reduced, c: Compact) -> None:
        """Branch and bound over all that could be in a better answer."""
        if len(c.cell) > DIRECT and self._best is not None:
            reduced = self._reduced(capped(self._instance, self._cost))
            if reduced.infeasible or not reduced.nodes:
                return
            c = compact(reduced)
        if len(c.cell) <= DIRECT:
            self._exactly(reduced, c)
        else:
            self._narrowly(c)

    def _exactly(self, reduced: Reduced, c: Compact) -> None:
        """Relaxation, then branch and bound, of all that is left."""
        program = IntegerProgram(c, reduced.excess, stopped=self._late)
        bound = program.relax(self._left() * RELAX_SHARE)
        self._raise(bound + reduced.constant, RELAXED)
        start = self._lowered(reduced, self._best)
        solved = program.solve(self._left() * EXACT_SHARE, start=start)
        if solved.choice is not None:
            self._adopt(reduced, solved.choice)
        self._raise(solved.bound + reduced.constant, BRANCHED)
        self._proved = solved.proved
        if self._proved and self._best is not None:
            self._bound = self._cost

    def _narrowly(self, c: Compact) -> None:
        """An answer from the cheaper cells alone, among what their relaxation uses."""
        cap = float(np.sort(c.cell[np.isfinite(c.cell)])[: 2 * DIRECT : 16][-1])
        reduced = self._reduced(capped(self._instance, cap))
        if reduced.infeasible or not reduced.nodes:
            return
        narrow = compact(reduced)
        program = IntegerProgram(narrow, reduced.excess, stopped=self._late)
        bound = program.relax(self._left() * RELAX_SHARE)
        beyond = cap + self._instance.constant
        self._raise(min(bound + reduced.constant, beyond), RELAXED)
        used = program.shares()
        if used is None:
            return
        core = self._reduced(_core(self._instance, reduced, narrow, used, cap))
        if not core.infeasible and core.nodes:
            small = IntegerProgram(compact(core), core.excess, stopped=self._late)
            found = small.solve(self._left() * RELAX_SHARE).choice
            if found is not None:
                self._adopt(core, found)

    def _by_windows(self) -> None:
        """Improve what there is over all cells that cost less than it does."""
        reduced = self._reduced(capped(self._instance, self._cost))
        if reduced.infeasible or not reduced.nodes or self._left() <= 0:
            return
        c = compact(reduced)
        near = self._near if self._best is None else self._best
        choice = self._lowered(reduced, near)
        if choice is None:
            choice = np.zeros(c.nodes, dtype=np.int64)
        price = reduced.excess
        if math.isinf(price):
            scale = self._cost if self._best else float(c.cell[np.isfinite(c.cell)].sum())
            price = STRICT * scale / max(float(c.capacity.max(initial=1.0)), 1.0)
        found, proved = improve(
            c,
            choice,
            price,
            seconds=self._left(),
            seed=self._seed,
            stopped=self._late,
            report=lambda found: self._adopt(reduced, found),
        )
        self._adopt(reduced, found)
        if proved and self._best is not None:
            self._proved = True
            self._raise(self._cost, BRANCHED)

    def _adopt(self, reduced: Reduced, choice: Ints) -> None:
        self._take(_lifted(reduced, choice))

    def _take(self, choice: list[int]) -> None:
        found = score(self._instance, choice)
        if found.feasible and found.cost < self._cost:
            self._best, self._cost = choice, found.cost
            self._report(found.cost)

    def _lowered(self, reduced: Reduced, choice: list[int] | None) -> Ints | None:
        if choice is None:
            return None
        held = reduced.lower(choice)
        return np.array([held[node] for node in sorted(held)], dtype=np.int64)

    def _raise(self, bound: float, relaxation: Proof) -> None:
        if bound > self._bound:
            self._bound, self._relaxation = bound, relaxation

    def _left(self) -> float:
        return self._end - time.monotonic()

    def _late(self) -> bool:
        return self._left() <= 0 or self._stopped()

    def _answer(self) -> Solution:
        return Solution(
            choice=self._best,
            cost=self._cost,
            bound=min(self._bound, self._cost) if self._best is not None else self._bound,
            relaxation=self._relaxation,
            proved=self._proved,
        )


def _lifted(reduced: Reduced, choice: Ints) -> list[int]:
    return reduced.lift(dict(zip(sorted(reduced.nodes), choice.tolist(), strict=True)))


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
