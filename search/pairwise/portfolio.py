"""Prices of memory and searches by forests, side by side on several threads.

The prices come first, as every search needs some, and their choices are where searches start. As
long as they change, they have a part of the time. Searches share the best choice.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from toast.analysis.program import Ints
from toast.search.pairwise.compact import Compact, total
from toast.search.pairwise.forests import Forests
from toast.search.pairwise.multipliers import Multipliers

FIRST_STEPS = 8
"""Steps of the prices before the first search."""
PRICE_SHARE = 0.4
"""Part of all threads' time that the prices have while they change."""
MOST_EARLY = 0.05
"""Part of the time left by which it ends at most too early, so as not to end too late."""
TOLERANCE = 1e-9
"""A choice this close to the bound is the best, relatively."""


class Portfolio:
    """The best `choice` (None: none fits yet), its `cost`, and the `bound` below every choice.

    While there is none, `near` is the last one seen.
    `report` gets every choice that is better than all before, in the thread that found it.
    """

    def __init__(
        self,
        c: Compact,
        excess: float,
        *,
        seed: int = 0,
        start: Ints | None = None,
        stopped: Callable[[], bool] = lambda: False,
        report: Callable[[Ints, float], None] = lambda _choice, _cost: None,
    ) -> None:
        self._c, self._excess, self._seed = c, excess, seed
        self._stopped, self._tell = stopped, report
        self._lock, self._pricing = threading.Lock(), threading.Lock()
        self._prices = Multipliers(c, excess, self._offer)
        self._price_seconds, self._steps = 0.0, 0
        self.near = start if start is not None else np.zeros(c.nodes, dtype=np.int64)
        self.choice: Ints | None = None
        self.cost = math.inf
        if start is not None:
            self._offer(start, total(c, start, excess))

    @property
    def bound(self) -> float:
        """What no choice costs less than."""
        return self._prices.bound

    @property
    def proved(self) -> bool:
        """Whether nothing is cheaper than the choice, or nothing fits."""
        close = self.cost - TOLERANCE * abs(self.cost)
        return self.bound == math.inf or (math.isfinite(self.cost) and close <= self.bound)

    def run(self, end: float, threads: int = 1, *, settle: bool = False) -> None:
        """Go on until the monotonic time `end`; with `settle`, until the prices have settled."""
        began = time.monotonic() - self._price_seconds / (PRICE_SHARE * threads)

        def work(number: int) -> None:
            self._work(began, end, number, threads, settle=settle)

        if threads == 1:
            work(0)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))

    def _work(self, began: float, end: float, number: int, threads: int, *, settle: bool) -> None:
        search: Forests | None = None
        longest = 0.0
        while (now := time.monotonic()) + longest < end and not self._stopped():
            if self.proved or (settle and self._prices.settled):
                return
            share = PRICE_SHARE * threads * (now - began)
            if not self._step_prices(share):
                if search is None:
                    search = self._new_search(number)
                self._search(search)
            longest = min(max(0.9 * longest, time.monotonic() - now), MOST_EARLY * (end - now))

    def _step_prices(self, share: float) -> bool:
        """One step of the prices, if it is their turn and nobody else does it."""
        early = self._steps < FIRST_STEPS
        if self._prices.settled or (self._price_seconds > share and not early):
            return False
        if not self._pricing.acquire(blocking=early):
            return False
        try:
            began = time.monotonic()
            self._prices.step(self.cost)
            self._steps += 1
            self._price_seconds += time.monotonic() - began
        finally:
            self._pricing.release()
        return True

    def _new_search(self, number: int) -> Forests:
        choice = self.near if self.choice is None else self.choice
        seed = self._seed * 1000 + number
        return Forests(self._c, choice, self._excess, seed=seed, stopped=self._stopped)

    def _search(self, search: Forests) -> None:
        if self.choice is not None:
            search.adopt(self.choice, self.cost)
        if math.isinf(search.cost):
            search.fit(self._prices.best)
        else:
            search.improve(self._prices.best)
        if search.cost < self.cost:
            self._offer(search.choice, search.cost)

    def _offer(self, choice: Ints, cost: float) -> None:
        with self._lock:
            if self.choice is None:
                self.near = choice.copy()
            if cost < self.cost:
                self.choice, self.cost = choice.copy(), cost
                self._tell(self.choice, cost)
