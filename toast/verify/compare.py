"""How far two runs are apart, how far they may be, and what follows from that.

A result may differ by what rounding does to it, and how much that is the program says itself: by
its own changes when every input moves by one unit in the last place, and when its sums are made in
another order. A wrong collective, a partial sum left out or a shard in the wrong place changes a
result by about as much as it is large.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from toast.plans.plan import Tensor
from toast.verify.verification import Difference, Verdict

Array = np.ndarray[Any, Any]

SAFETY = 16.0
"""Two runs that differ by rounding alone differ by at most so many times what a third does."""
UNITS = 4.0
"""Units in the last place, of the largest element, that are always allowed."""
GRAY = 8.0
"""Above the tolerance, and up to so many times it, nobody can tell."""
BLUR = 2.0**-3
"""A result that rounding alone may change by more than this part of itself says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """How far a result is from another run's.

    `largest` is the largest absolute difference, `scale` the largest magnitude, `rms` the root mean
    square of the difference over that of the result. `mismatched` counts values that are finite in
    one alone, or are no floats and not equal; `finite` is the share of values that are finite.
    """

    largest: float
    scale: float
    rms: float
    mismatched: int
    finite: float

    @property
    def relative(self) -> float:
        """The largest difference relative to the largest magnitude."""
        return _quotient(self.largest, self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What a result may differ by, relative to its scale and to its root mean square.

    `mismatched` are values that rounding alone changed, of those that have to be equal.
    """

    relative: float
    rms: float
    mismatched: int

    @property
    def is_blurred(self) -> bool:
        """Whether rounding may change the result beyond recognition."""
        return self.rms > BLUR


def deviation(expected: Array, actual: Array) -> Deviation:
    """How far `actual` is from `expected`."""
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    first, second = expected.astype(wide), actual.astype(wide)
    both = np.isfinite(first) & np.isfinite(second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    apart = np.abs(np.subtract(first, second, where=both, out=np.zeros_like(first)))
    sizes = np.abs(np.where(both, first, 0))
    scale = float(np.max(sizes, initial=0.0))
    discrete = is_discrete(expected.dtype)
    return Deviation(
        largest=float(np.max(apart, initial=0.0)),
        scale=scale,
        rms=_rms_quotient(apart, sizes, scale),
        mismatched=int(np.count_nonzero(~same if discrete else ~both & ~same)),
        finite=float(np.mean(np.isfinite(first))) if first.size else 1.0,
    )


def tolerance(expected: Array, runs: Sequence[Deviation]) -> Tolerance:
    """What a result may differ by, from how far runs of the program itself are apart."""
    if is_discrete(expected.dtype):
        return Tolerance(relative=0.0, rms=0.0, mismatched=max(run.mismatched for run in runs))
    least = UNITS * epsilon(expected.dtype)
    return Tolerance(
        relative=least + SAFETY * max(run.relative for run in runs),
        rms=least + SAFETY * max(run.rms for run in runs),
        mismatched=max(run.mismatched for run in runs),
    )


def judge(tensor: Tensor, found: Deviation, allowed: Tolerance, blind: str = "") -> Difference:
    """What is to be said of one result; `blind` is why it says nothing, "" where it does."""
    verdict, why = _verdict(found, allowed, blind)
    return Difference(
        index=tensor.index,
        name=tensor.name,
        shape=tensor.shape,
        dtype=tensor.dtype,
        largest=_finite(found.largest),
        scale=_finite(found.scale),
        relative=_finite(found.relative),
        tolerance=_finite(allowed.relative),
        rms=_finite(found.rms),
        rms_tolerance=_finite(allowed.rms),
        mismatched=found.mismatched,
        finite=found.finite == 1.0,
        verdict=verdict,
        why=why,
    )


def _verdict(found: Deviation, allowed: Tolerance, blind: str) -> tuple[Verdict, str]:
    excess = max(
        _quotient(found.relative, allowed.relative), _quotient(found.rms, allowed.rms)
    )  # fmt: skip
    if found.mismatched > allowed.mismatched * SAFETY:
        return "differs", f"in {found.mismatched} values that are not finite in both, or not equal"
    if found.mismatched:
        return "untold", "rounding alone changes which values it has"
    if excess > GRAY:
        return "differs", "by more than rounding does"
    if found.largest == 0:
        return ("untold", blind) if blind else ("equal", "" if found.scale else "zero in both")
    if blind or allowed.is_blurred:
        return "untold", blind or "rounding alone changes it by as much"
    return ("equal", "") if excess <= 1 else ("untold", "it differs by a little more than rounding")


def is_discrete(dtype: np.dtype[Any]) -> bool:
    """Whether values of a type are equal or not, with nothing between."""
    return dtype.kind in "iub" or "int" in dtype.name


def epsilon(dtype: np.dtype[Any]) -> float:
    """One unit in the last place of 1."""
    of: Any = ml_dtypes.finfo
    return float(of(dtype).eps)


def _rms_quotient(apart: Array, sizes: Array, scale: float) -> float:
    """Scaled first: squares of large values are not finite."""
    if scale == 0:
        return 0.0 if not apart.any() else float("inf")
    top, bottom = (float(np.sqrt(np.mean(np.square(one / scale)))) for one in (apart, sizes))
    return _quotient(top, bottom)


def _quotient(top: float, bottom: float) -> float:
    return top / bottom if bottom else (0.0 if top == 0 else float("inf"))


def _finite(value: float) -> float:
    return min(value, sys.float_info.max)
