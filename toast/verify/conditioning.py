"""Inputs on which a program says something: a search over how large they are.

The first run is of inputs scaled by fan-in. Where it overflows, or its results hang on the last
place of its inputs, all are made smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toast.verify.compare import Deviation, deviation, epsilon, is_discrete, tolerance
from toast.verify.inputs import InputArgument, is_floating, make_inputs, one_unit_off

Array = np.ndarray[Any, Any]
Run = Callable[[list[Array]], list[Array]]

SCALES = (1.0, 2.0**-1, 2.0**-2, 2.0**-4)
"""What the inputs are multiplied by, in turn, while the program is not steady."""
STEADY = 64.0
"""Inputs are good that move results by so many times as much as they are moved."""
CLEAR = 4.0
"""Of the data something is seen in a result that they change by so many times its tolerance."""

NOT_FINITE = "it is not finite"
NO_TRACE = "the data leave no trace in it beyond rounding"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnshardedRun:
    """The unsharded run on the inputs chosen, and how far one on moved inputs is from it.

    `blind` says for each result why it says nothing, "" where it does. `growth` is the most that a
    result moves relative to the inputs.
    """

    scale: float
    inputs: list[Array]
    results: list[Array]
    moved: list[Deviation]
    blind: list[str]
    growth: float

    @property
    def quality(self) -> tuple[int, float]:
        """The lower the better: results that are not finite, then how unsteady it is."""
        return self.blind.count(NOT_FINITE), max(self.growth, STEADY)

    @property
    def mute(self) -> int:
        """How many results say nothing."""
        rows = zip(self.results, self.moved, self.blind, strict=True)
        return sum(bool(blind) or tolerance(one, [moved]).is_blurred for one, moved, blind in rows)

    @property
    def is_steady(self) -> bool:
        """Whether smaller inputs are not called for."""
        return self.growth <= STEADY and NOT_FINITE not in self.blind


def find_baseline(arguments: Sequence[InputArgument], seed: int, run: Run) -> UnshardedRun:
    """The first inputs on which the program is steady, else those on which it is most so."""
    best = _attempt(list(arguments), seed, SCALES[0], run)
    for scale in SCALES[1:]:
        if best.is_steady or not any(is_floating(one.dtype) for one in arguments):
            break
        found = _attempt(list(arguments), seed, scale, run)
        if found.quality < best.quality:
            best = found
    return best


def _attempt(arguments: list[InputArgument], seed: int, scale: float, run: Run) -> UnshardedRun:
    inputs = make_inputs(arguments, seed, scale)
    results = run(inputs)
    nudged = run([one_unit_off(values, seed) for values in inputs])
    moved = [deviation(*pair) for pair in zip(results, nudged, strict=True)]
    del nudged
    seen: list[Deviation] = []
    if not all(one.is_state for one in arguments):
        others = make_inputs(arguments, seed + 1, scale)
        pairs = zip(arguments, inputs, others, strict=True)
        mixed = [same if one.is_state else other for one, same, other in pairs]
        seen = [deviation(*pair) for pair in zip(results, run(mixed), strict=True)]
    unit = max([epsilon(one.dtype) for one in [*inputs, *results] if is_floating(one.dtype)] or [1])
    return UnshardedRun(
        scale=scale,
        inputs=inputs,
        results=results,
        moved=moved,
        blind=[
            _blindness(result, moved[i], seen[i] if seen else None)
            for i, result in enumerate(results)
        ],
        growth=max([one.relative for one in moved if one.scale > 0] or [0.0]) / unit,
    )


def _blindness(result: Array, moved: Deviation, seen: Deviation | None) -> str:
    """Why a result says nothing; "" where it does."""
    if not result.size or (moved.scale == 0 and moved.finite == 1):
        return ""
    if moved.finite == 0:
        return NOT_FINITE
    allowed = tolerance(result, [moved])
    if is_discrete(result.dtype) or allowed.is_blurred or seen is None or seen.mismatched:
        return ""
    return "" if seen.relative > CLEAR * allowed.relative else NO_TRACE
