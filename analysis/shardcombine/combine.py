"""TryCombine (MetaDist, Algorithm 1): do two local results make up the global one, and how?

Arrays only: nothing here knows ops. Every test is over all sets of inputs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toast.analysis.shardcombine.findings import Combine, How
from toast.analysis.shardcombine.numbers import Array, wide

REDUCES = ("sum", "max", "min", "mean")
MAX_DROPPED = 3
"""Rows next to the seam that a shard may have computed for nothing, with a halo.

Operands have at least four rows where they can be split: dropping those would not be trimming.
"""
MAX_PADDING = 2
"""The same without a halo: what the op itself adds to its ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One result: the global array and those of two shards, one of each per set of inputs.

    `tolerance` is relative; `halo` tells whether the shards saw rows of each other.
    """

    whole: Sequence[Array]
    first: Sequence[Array]
    second: Sequence[Array]
    tolerance: float
    halo: bool = False


def try_combine(trial: Trial) -> Combine | None:
    """The combine that fits, or None."""
    shape, first, second = (arrays[0].shape for arrays in (trial.whole, trial.first, trial.second))
    if len(first) != len(shape) or len(second) != len(shape):
        return None
    changed = [d for d in range(len(shape)) if (first[d], second[d]) != (shape[d], shape[d])]
    if not changed:
        return _try_reduce(trial)
    if len(changed) > 1:
        return _try_trimmed(trial, changed) if trial.halo else None
    dim = changed[0]
    return _try_gather(trial, dim) or (_try_trimmed(trial, changed) if trial.halo else None)


def close(left: Array, right: Array, tolerance: float) -> bool:
    """Equal up to rounding; NaN equals NaN."""
    if left.shape != right.shape:
        return False
    if left.dtype.kind in "biu":
        return bool(np.array_equal(left, right))
    scale = tolerance * (1.0 if left.size == 0 else _scale(left))
    return bool(np.allclose(wide(left), wide(right), tolerance, scale, equal_nan=True))


def _scale(array: Array) -> float:
    values = np.abs(wide(array))
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else 1.0


def _try_reduce(trial: Trial) -> Combine | None:
    if _changes_nothing(trial):
        return None
    for name in REDUCES:
        if all(
            close(reduced(name, first, second), whole, trial.tolerance)
            for first, second, whole in _rows(trial)
        ):
            return Combine(how=How.REDUCE, reduce=name)
    return None


def _rows(trial: Trial) -> list[tuple[Array, Array, Array]]:
    return list(zip(trial.first, trial.second, trial.whole, strict=True))


def _changes_nothing(trial: Trial) -> bool:
    """Whether one shard alone always had the whole result: then its data was never needed."""
    return any(_same(parts, trial) for parts in (trial.first, trial.second))


def _same(parts: Sequence[Array], trial: Trial) -> bool:
    pairs = zip(parts, trial.whole, strict=True)
    return all(close(part, whole, trial.tolerance) for part, whole in pairs)


def reduced(name: str, first: Array, second: Array) -> Array:
    """Two local results reduced to one: `sum`, `max`, `min` or `mean`."""
    if first.dtype == np.bool_:
        return {"max": first | second, "min": first & second}.get(name, first[..., :0])
    left, right = wide(first), wide(second)
    if name in ("max", "min"):
        if left.dtype.kind == "c":
            return left[..., :0] if left.ndim else np.zeros(0)
        return np.maximum(left, right) if name == "max" else np.minimum(left, right)
    total: Array = left + right
    if name == "mean":
        return total / 2 if total.dtype.kind in "fc" else total[..., :0]
    return total


def _try_gather(trial: Trial, dim: int) -> Combine | None:
    rows = trial.whole[0].shape[dim]
    before, after = trial.first[0].shape[dim], trial.second[0].shape[dim]
    head = min(_agreeing(w, f, dim, trial.tolerance) for f, _, w in _rows(trial))
    tail = min(_agreeing_at_end(w, s, dim, trial.tolerance) for _, s, w in _rows(trial))
    if head == before and tail == after and head + tail == rows:
        return Combine(how=How.GATHER, dim=dim)
    limit = MAX_DROPPED if trial.halo else MAX_PADDING
    trimmed = _try_trim(dim, rows, (before, after), (head, tail), limit)
    if trimmed is not None:
        return trimmed
    overlapping = _try_overlap(trial, dim, before + after - rows)
    return overlapping or _try_blocks(trial, dim, head)


def _try_trim(
    dim: int, rows: int, sizes: tuple[int, int], agreeing: tuple[int, int], limit: int
) -> Combine | None:
    """Gather with a negative halo: a few rows next to the seam are dropped, the rest agrees."""
    low = max(sizes[0] - limit, rows - agreeing[1], 1)
    high = min(agreeing[0], rows - sizes[1] + limit, rows - 1)
    if low > high:
        return None
    kept = min(max(rows // 2, low), high)
    return Combine(how=How.HALO, dim=dim, before=sizes[0] - kept, after=sizes[1] - rows + kept)


def _agreeing(whole: Array, part: Array, dim: int, tolerance: float) -> int:
    """How many leading rows of `part` are those of `whole` (the paper's `allclose_rows`)."""
    left, right = np.moveaxis(whole, dim, 0), np.moveaxis(part, dim, 0)
    for row, (wanted, got) in enumerate(zip(left, right, strict=False)):
        if not close(np.asarray(got), np.asarray(wanted), tolerance):
            return row
    return min(len(left), len(right))


def _agreeing_at_end(whole: Array, part: Array, dim: int, tolerance: float) -> int:
    return _agreeing(np.flip(whole, dim), np.flip(part, dim), dim, tolerance)


def _try_overlap(trial: Trial, dim: int, overlap: int) -> Combine | None:
    """Gather with a positive halo: rows that both shards have are added up."""
    smaller = min(trial.first[0].shape[dim], trial.second[0].shape[dim])
    if not 0 < overlap <= smaller // 2 or trial.first[0].dtype == np.bool_:
        return None
    for first, second, whole in _rows(trial):
        if not close(_overlapped(first, second, dim, overlap), wide(whole), trial.tolerance):
            return None
    return Combine(how=How.HALO, dim=dim, before=-overlap, after=0)


def _overlapped(first: Array, second: Array, dim: int, overlap: int) -> Array:
    left, right = np.moveaxis(wide(first), dim, 0), np.moveaxis(wide(second), dim, 0)
    seam = left[-overlap:] + right[:overlap]
    return np.moveaxis(np.concatenate([left[:-overlap], seam, right[overlap:]]), 0, dim)


def _try_blocks(trial: Trial, dim: int, head: int) -> Combine | None:
    """Block gather; the paper guesses the number of blocks from the rows that agree."""
    rows = trial.first[0].shape[dim]
    if head == 0 or rows % head or rows == head or trial.second[0].shape[dim] != rows:
        return None
    blocks = rows // head
    for first, second, whole in _rows(trial):
        pairs = zip(np.split(first, blocks, dim), np.split(second, blocks, dim), strict=True)
        spliced = np.concatenate([part for pair in pairs for part in pair], dim)
        if not close(spliced, whole, trial.tolerance):
            return None
    return Combine(how=How.BLOCKS, dim=dim, blocks=blocks)


def _try_trimmed(trial: Trial, dims: list[int]) -> Combine | None:
    """Reduce of local results that a halo made too long: rows past the ends are dropped first."""
    shape = trial.whole[0].shape
    first, second = trial.first[0].shape, trial.second[0].shape
    if any(first[d] < shape[d] or second[d] < shape[d] for d in dims):
        return None
    heads = tuple(slice(0, size) for size in shape)
    tails = tuple(slice(size - wanted, None) for size, wanted in zip(second, shape, strict=True))
    trimmed = Trial(
        whole=trial.whole,
        first=[array[heads] for array in trial.first],
        second=[array[tails] for array in trial.second],
        tolerance=trial.tolerance,
    )
    found = _try_reduce(trimmed)
    if found is None:
        return None
    before, after = (max(size[d] - shape[d] for d in dims) for size in (first, second))
    return Combine(how=How.REDUCE, reduce=found.reduce, before=before, after=after)
