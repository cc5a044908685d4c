"""A lower bound on every choice of an instance of which a good choice is known."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

from toast.search.pairwise.compact import compact
from toast.search.pairwise.highs import IntegerProgram
from toast.search.pairwise.instance import Instance, capped
from toast.search.pairwise.proofs import BRANCHED, RELAXED, Proof
from toast.search.pairwise.reduce import Reduced


def lower_bounds(
    instance: Instance,
    known: float,
    *,
    seconds: float,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[float, Proof]]:
    """Ever higher bounds that no choice costs less than, and what proves each.

    `known` is what some choice costs: cells that alone cost more are in no better one, and without
    them little is left. First comes the linear relaxation, then branch and bound while time lasts.
    There is none where there was no time for either.
    """
    end = time.monotonic() + seconds
    reduced = Reduced(capped(instance, known))
    if reduced.infeasible:
        yield known, BRANCHED
        return
    if not reduced.nodes:
        yield min(known, reduced.constant), BRANCHED
        return
    program = IntegerProgram(compact(reduced), reduced.excess, stopped=stopped)
    relaxed = program.relax(max(0.0, end - time.monotonic())) + reduced.constant
    if relaxed > -math.inf:
        yield min(known, relaxed), RELAXED
    left = end - time.monotonic()
    if relaxed < known and left > 0:
        branched = program.solve(left).bound + reduced.constant
        if branched > relaxed:
            yield min(known, branched), BRANCHED
