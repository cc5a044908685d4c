"""What depends on which units, so that a change of layout re-prices only that.

Rows of all terms have one numbering: those of the first term, then of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from toast.analysis.program import Ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.terms.tensors import Tensors
from toast.costmodel.terms.units import Units

Pairs = Ints
"""[pairs, (row, unit)]; unit -1 is none."""


class Dependents(NamedTuple):
    """By unit the rows of all terms that depend on it, from `row_start` on, and its tensors."""

    row_start: Ints
    row: Ints
    tensor_start: Ints
    tensor: Ints


class Changes(NamedTuple):
    """The masks that were `priced` last, and which rows of all terms are `stale` since."""

    priced: Ints
    stale: Bools


def changes_of(units: Units, rows: int) -> Changes:
    """Nothing is priced yet of so many rows."""
    return Changes(
        priced=np.zeros(len(units.item_group), dtype=np.int64),
        stale=np.zeros(rows, dtype=np.bool_),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwningUnits:
    """What a term's dependencies are made of.

    The unit of each `item`; that whose items the dimensions of each `tensor` take their axes from,
    or -1; the same of its `table`; and by name the pairs of terms that come before.
    """

    item: Ints
    tensor: Ints
    table: Ints
    terms: dict[str, Pairs] = field(default_factory=dict)


def owning_units(units: Units, tensors: Tensors) -> OwningUnits:
    """The units of all items and tensors, and of no term yet."""
    item_unit = np.repeat(np.arange(len(units.start) - 1), np.diff(units.start))
    found = np.full(len(tensors.itemsize), -1, dtype=np.int64)
    laid = tensors.dim_item >= 0
    found[rows_of(tensors.start)[laid]] = item_unit[tensors.dim_item[laid]]
    table = np.where(tensors.table < 0, -1, found[tensors.table])
    return OwningUnits(item=item_unit, tensor=found, table=table)


def dependents(units: Units, owners: OwningUnits, pairs: Sequence[tuple[int, Pairs]]) -> Dependents:
    """All that depends on each unit; of each term how many rows it has, and its pairs."""
    firsts = np.concatenate([[0], np.cumsum([rows for rows, _ in pairs])])
    rows = np.concatenate(
        [found + np.array([first, 0]) for first, (_, found) in zip(firsts, pairs, strict=False)]
    )
    tensors = np.stack([np.arange(len(owners.tensor)), owners.tensor], axis=1)
    count = len(units.start) - 1
    return Dependents(*_by_unit(rows, count), *_by_unit(tensors, count))


def rows_of(starts: Ints) -> Ints:
    """The row of each entry of a flat column with these starts."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def paired(*columns: tuple[Ints, Ints]) -> Pairs:
    """The pairs of columns of rows and of units."""
    return np.concatenate([np.stack(column, axis=1) for column in columns]).astype(np.int64)


def through(others: Ints, pairs: Pairs) -> Pairs:
    """The pairs of the row that each row looks at, as its own; -1 looks at none."""
    order = np.argsort(pairs[:, 0], kind="stable")
    bounds = np.searchsorted(pairs[order, 0], [others, others + 1])
    counts = np.where(others >= 0, bounds[1] - bounds[0], 0)
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    entries = order[np.repeat(bounds[0], counts) + offsets]
    return np.stack([np.repeat(np.arange(len(others)), counts), pairs[entries, 1]], axis=1)


def _by_unit(pairs: Pairs, units: int) -> tuple[Ints, Ints]:
    """(starts, numbers): for each unit the numbers that are paired with it, each once."""
    width = int(pairs[:, 0].max(initial=0)) + 1
    kept = pairs[pairs[:, 1] >= 0]
    of, numbers = np.divmod(np.unique(kept[:, 1] * width + kept[:, 0]), width)
    return np.searchsorted(of, np.arange(units + 1)).astype(np.int64), numbers
