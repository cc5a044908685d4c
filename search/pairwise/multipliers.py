"""Prices of memory over time, a bound from them, and choices that they lead to.

Where memory has a price instead of a limit, what is left is a sum over nodes and pairs. Messages
(`message_kernels.py`) bound it and say what each node should take. Prices rise at times that such
choices fill too much and fall where there is room (subgradients, with the step of Polyak).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.search.pairwise.choice_kernels import price_memory
from toast.search.pairwise.compact import Compact, backs, judged, mirrored
from toast.search.pairwise.message_kernels import Mailbox, decide, sweep

SWEEPS = 3
"""Rounds of messages at one price."""
SWEEP_SECONDS = 0.005
"""There are more of them where they take less than this together, up to `MAX_SWEEPS`."""
MAX_SWEEPS = 8
PATIENCE = 12
"""Steps without a better bound after which they become shorter, by `SHORTER`."""
SHORTER = 0.66
FRESH = 0.4
"""What the last choice counts for in the average that the prices follow."""
MAX_TIMES = 200
NEW_TIMES = 2
"""Times that get a price at most, altogether and at once."""
ROUNDING = 1e-6
"""Part of the price of all memory that sums of it may be wrong by, and more."""
LAST_STEP = 1e-6
"""Steps this short change nothing any more."""


class Multipliers:
    """The prices, `best` ones and those of now; `bound` is below every choice.

    The bound is infinite once it is above what any choice could cost: none fits.

    `excess` (maybe infinite) is what a unit of memory above capacity costs; the prices of all times
    together are at most that. `report` gets every choice and its cost.
    """

    def __init__(self, c: Compact, excess: float, report: Callable[[Ints, float], None]) -> None:
        self._c, self._mirrored = c, mirrored(c)
        self._excess, self._report = excess, report
        self._mail = _mailbox(c, backs(c))
        self._prices = np.zeros(len(c.capacity))
        self._same = np.ones(c.nodes)
        self._times: list[int] = []
        self._average = np.zeros(len(c.capacity))
        self._scale, self._stalled, self._sweeps = 1.0, 0, SWEEPS
        self._least = math.inf
        self._choice = np.zeros(c.nodes, dtype=np.int64)
        highest = sum(float(v[np.isfinite(v)].max(initial=0.0)) for v in (c.cost, c.cell))
        self._most = (1.0 + highest) * (c.nodes + len(c.link_node))
        self.best = self._prices
        self.bound = -math.inf

    @property
    def settled(self) -> bool:
        """Whether more steps would change anything."""
        if self.bound == math.inf or self._scale < LAST_STEP:
            return True
        return not self._times and self._stalled > PATIENCE

    def step(self, known: float) -> None:
        """One step; `known` (maybe infinite) is what some choice costs."""
        c = self._c
        until = np.concatenate([[0.0], np.cumsum(self._prices)])
        price_memory(self._mirrored, until, self._same, self._mail.unary)
        found = self._pass_messages() - float(self._prices @ c.capacity)
        decide(self._mirrored, self._mail, self._choice)
        cost, over = judged(c, self._choice, self._excess)
        self._report(self._choice, cost)
        self._average = FRESH * over + (1 - FRESH) * self._average
        self._times += self._full_times(over)
        self._least = min(self._least, known, cost)
        self._judge(found, over)
        rounding = ROUNDING * float(self._prices @ c.capacity)
        if math.isinf(self._excess) and found > self._most + rounding:
            self.bound = math.inf
        else:
            self._move(found)

    def _pass_messages(self) -> float:
        began, found = time.monotonic(), -math.inf
        for _ in range(self._sweeps):
            forward = sweep(self._mirrored, self._mail, 1)
            found = max(forward, sweep(self._mirrored, self._mail, 0))
        quick = time.monotonic() - began < SWEEP_SECONDS
        self._sweeps = min(self._sweeps + 1, MAX_SWEEPS) if quick else SWEEPS
        return found

    def _judge(self, found: float, over: Floats) -> None:
        """Keep what is best; shorten the steps where nothing gets better."""
        if found > self.bound + 1e-4 * abs(self.bound) or math.isinf(self.bound):
            self._stalled = 0
        if found > self.bound:
            self.bound, self.best = found, self._prices.copy()
        self._stalled += 1
        if self._stalled > PATIENCE:
            self._scale, self._stalled = self._scale * SHORTER, 0
            self._prices, self._average = self.best.copy(), over

    def _full_times(self, over: Floats) -> list[int]:
        """The times furthest above capacity that have no price yet, each of another stretch."""
        found: list[int] = []
        over = np.maximum(over, 0.0)
        over[self._times] = 0.0
        most = min(NEW_TIMES, MAX_TIMES - len(self._times))
        while len(found) < most and over.max(initial=0.0) > 0:
            peak = int(over.argmax())
            below = np.flatnonzero(over <= over[peak] / 2)
            place = int(np.searchsorted(below, peak))
            low = int(below[place - 1]) if place else 0
            high = int(below[place]) if place < len(below) else len(over)
            over[low : high + 1] = 0.0
            found.append(peak)
        return found

    def _move(self, found: float) -> None:
        times = np.array(self._times, dtype=np.int64)
        way = self._average[times]
        way = np.where((self._prices[times] <= 0) & (way < 0), 0.0, way)
        length = float((way * way).sum())
        if length <= 0.0:
            return
        goal = self._least if math.isfinite(self._least) else 2 * abs(found) + 1.0
        step = self._scale * max(goal - found, 1e-3 * abs(goal)) / length
        self._prices[times] = np.maximum(0.0, self._prices[times] + step * way)
        if self._prices.sum() > self._excess:
            self._prices *= self._excess / self._prices.sum()


def _mailbox(c: Compact, back: Ints) -> Mailbox:
    """Nothing heard yet."""
    node = np.repeat(np.arange(c.nodes), np.diff(c.link_start))
    sizes = np.diff(c.start)
    first = np.concatenate([[0], np.cumsum(sizes[node])]).astype(np.int64)
    own, share, told = (np.zeros(int(sizes.max(initial=1))) for _ in range(3))
    return Mailbox(
        first=first,
        back=back,
        heard=np.zeros(int(first[-1])),
        unary=c.cost.copy(),
        own=own,
        share=share,
        told=told,
    )
