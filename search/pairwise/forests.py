"""Improves a choice by forests: most of the nodes at once, exactly, the few others fixed.

Removing few nodes leaves no cycle in a graph as sparse as a program's. On what is left a sum over
nodes and pairs has its exact minimum in one pass. Memory comes in by prices: those that gave the
best bound, changed at random from round to round. Only changes that fit are taken over, each
connected part of them by itself. A round begins with high prices, which make room, and ends with
none, which uses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.search.pairwise.choice_kernels import price_memory
from toast.search.pairwise.compact import Compact, backs, judged, mirrored, total
from toast.search.pairwise.forest_kernels import Forest, accept, grow, propose

ROUND = ((0.8, 1.3), (0.3, 1.0), (0.0, 0.3), (0.0, 0.0), (0.0, 0.0))
"""Between which parts of the prices the steps of a round draw theirs."""
LOCAL_ROUND = ((1.0, 3.0), (0.5, 1.0), (0.0, 0.0), (0.0, 0.0))
"""Those of a round whose first step is local."""
REGIONS = (0.03, 0.1, 0.3, 0.5)
"""Parts of the nodes that a local step may change."""
NOISE = (0.05, 0.2, 0.5)
"""Spread of the prices of a round, as the deviation of their logarithm."""
LEVELS = 0.7
"""Spread of the level of all prices, likewise, after a round that found nothing better."""
REGION_FACTOR = (0.0, 3.0)
"""Where a region sees other prices, these times as high."""
PEAK_PRICE = 0.3
"""The fullest time is charged up to so much of the sum of all prices besides."""
RETURN = 8
"""Rounds without a better choice after which the search goes back to the best one."""
ADOPT, FAR = 0.05, 0.005
"""How likely it is that a search takes over another one's better choice in a round, and from which
part of the cost it always does."""
STRICT = 1e4
"""A full limit's worth of memory above it costs so many times a choice, where it may not be."""
FIT_STEPS = 60
FIRST_RISE, FIT_RISE = 1e-9, 1.5
"""How often prices rise to make a choice fit, how far first (by a forbidden cost), how fast."""
REDRAWN = (0.1, 0.3, 1.0)
"""Parts of the nodes that get other strategies before another try to make a choice fit."""
HUBS_FIRST = (0.0, 0.5, 1.0)
"""How much sooner nodes with many neighbours come into a forest: powers of their number."""


class Forests:
    """A search from one choice; `choice` and `cost` (infinite: it does not fit) are the best."""

    def __init__(
        self,
        c: Compact,
        choice: Ints,
        excess: float,
        *,
        seed: int,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._c, self._excess, self._stopped = c, excess, stopped
        self._mirrored = mirrored(c)
        self._random = np.random.default_rng(seed)
        self._links = np.diff(c.link_start) + 1.0
        self._highest = float(self._mirrored.cell.max(initial=self._mirrored.cost.max(initial=1.0)))
        self._forest = _forest(c, choice)
        self._stale, self._tried = 0, False
        self.choice, self.cost = choice.copy(), total(c, choice, excess)
        self._now = self.cost

    def adopt(self, choice: Ints, cost: float) -> None:
        """Go on from this choice if it is much better, or now and then if it is better at all."""
        far = cost < self.cost * (1 - FAR) or math.isinf(self.cost)
        if far or (cost < self.cost and self._random.random() < ADOPT):
            self.choice, self.cost = choice.copy(), cost
            self._return()

    def fit(self, prices: Floats) -> None:
        """Raise prices where the limit is exceeded until the choice fits.

        Where the last try came to nothing, some nodes begin with other strategies.
        """
        c, forest = self._c, self._forest
        if self._tried:
            self._redraw(self._random.choice(REDRAWN))
        self._tried = True
        unit = FIRST_RISE * self._highest / max(float(c.capacity.max(initial=1.0)), 1.0)
        rise = np.zeros(len(c.capacity))
        forest.fine[:] = 0.0
        for _ in range(FIT_STEPS):
            if math.isfinite(self.cost) or self._stopped():
                return
            over = forest.memory > c.capacity
            rise[over] = np.maximum(rise[over] * FIT_RISE, unit)
            self._step(prices + rise, self._factor())
            unit *= FIT_RISE

    def _redraw(self, part: float) -> None:
        """Give a part of the nodes any of their strategies."""
        c, forest = self._c, self._forest
        drawn = np.flatnonzero(self._random.random(c.nodes) < part)
        forest.choice[drawn] = self._random.integers(np.diff(c.start)[drawn])
        forest.memory[:] = judged(c, forest.choice, 0.0)[1] + c.capacity

    def improve(self, prices: Floats) -> None:
        """One round from the choice of now."""
        self._forest.fine[:] = self._fine()
        before = self.cost
        local = self._random.random() < 0.5
        factor = np.ones(self._c.nodes)
        if self._stale:
            factor = self._factor() * np.exp(self._random.normal(0.0, LEVELS))
        for number, (low, high) in enumerate(LOCAL_ROUND if local else ROUND):
            if self._stopped():
                return
            region = self._region() if local and not number else None
            part = self._random.uniform(low, high)
            self._step(part * self._shaken(prices), factor, region)
        self._stale = 0 if self.cost < before else self._stale + 1
        if self._stale > RETURN:
            self._return()

    def _fine(self) -> float:
        if math.isfinite(self._excess):
            return self._excess
        cost = self.cost if math.isfinite(self.cost) else self._highest
        return STRICT * (abs(cost) + 1.0) / max(float(self._c.capacity.max(initial=1.0)), 1.0)

    def _shaken(self, prices: Floats) -> Floats:
        """The prices with noise, and more at the time that is fullest now."""
        spread = self._random.choice(NOISE)
        found: Floats = prices * np.exp(self._random.normal(0.0, spread, len(prices)))
        if len(prices):
            fullest = int((self._forest.memory - self._c.capacity).argmax())
            found[fullest] += prices.sum() * self._random.uniform(0.0, PEAK_PRICE)
        return found

    def _region(self) -> Ints:
        """Connected nodes around one drawn by lot."""
        c = self._c
        most = 1 + int(c.nodes * self._random.choice(REGIONS))
        found = [int(self._random.integers(c.nodes))]
        seen = set(found)
        for node in found:
            for other in c.link_node[c.link_start[node] : c.link_start[node + 1]].tolist():
                if other not in seen and len(found) < most:
                    seen.add(other)
                    found.append(other)
        return np.array(found, dtype=np.int64)

    def _factor(self) -> Floats:
        """By what each node sees the prices differently: by itself, or as all in a region."""
        c, found = self._c, np.ones(self._c.nodes)
        kind = self._random.integers(3)
        if kind == 1:
            found = np.exp(self._random.normal(0.0, self._random.choice(NOISE), c.nodes))
        elif kind == 2:
            found[self._region()] = self._random.uniform(*REGION_FACTOR)
        return found

    def _step(self, prices: Floats, factor: Floats, region: Ints | None = None) -> None:
        """Take over what pays on one forest at these prices."""
        c, forest = self._mirrored, self._forest
        price_memory(c, np.concatenate([[0.0], np.cumsum(prices)]), factor, forest.unary)
        nodes = np.arange(c.nodes) if region is None else region
        power = self._random.choice(HUBS_FIRST)
        keys = self._random.random(len(nodes)) / self._links[nodes] ** power
        taken = grow(c, forest, nodes[np.argsort(keys)])
        if propose(c, forest, taken):
            self._now += accept(c, forest, taken)
            if self._now < self.cost or math.isinf(self.cost) or math.isfinite(self._excess):
                self._keep()

    def _keep(self) -> None:
        cost = total(self._c, self._forest.choice, self._excess)
        if cost < self.cost:
            self.choice, self.cost = self._forest.choice.copy(), cost
            self._now = cost

    def _return(self) -> None:
        self._stale, self._now = 0, self.cost
        self._forest.choice[:] = self.choice
        self._forest.memory[:] = judged(self._c, self.choice, 0.0)[1] + self._c.capacity


def _forest(c: Compact, choice: Ints) -> Forest:
    def numbers() -> Ints:
        return np.zeros(c.nodes, dtype=np.int64)

    return Forest(
        back=backs(c),
        choice=choice.copy(),
        proposed=numbers(),
        memory=judged(c, choice, 0.0)[1] + c.capacity,
        fine=np.zeros(len(c.capacity)),
        unary=np.zeros(len(c.cost)),
        total=np.zeros(len(c.cost)),
        told=np.zeros(int(np.diff(c.start).max(initial=1))),
        root=numbers(),
        seen=numbers(),
        order=numbers(),
        above=numbers(),
        link=numbers(),
        part=numbers(),
        listed=numbers(),
    )
