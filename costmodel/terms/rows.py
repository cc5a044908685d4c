"""The weighted rows behind the tables: each thing that costs something, counted once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.all_reduce_reassociate import SCATTER
from toast.costmodel.passes.dynamic_update_slice import UPDATE_SLICE
from toast.costmodel.program.arrays import floats, ints
from toast.costmodel.program.op_traits import Role, role

Row = TypeVar("Row")
Source = tuple[int, float]
"""What a row stands for, by number, and its part of the row's weight."""


class WeightedRows(dict[Row, float]):
    """The weight of each row, in order of appearance; `grouped` says what each is made of."""

    def __init__(self) -> None:
        super().__init__()
        self._sources: dict[Row, list[Source]] = {}
        self._columns: tuple[Ints, Floats, Ints] | None = None

    @classmethod
    def of(
        cls, rows: Sequence[Row], number: Ints, weights: Floats, sources: Ints
    ) -> WeightedRows[Row]:
        """Distinct rows by number of appearance: what has which, how often, because of what."""
        found = cls()
        totals = np.bincount(number, weights=weights, minlength=len(rows))
        found.update(zip(rows, totals.tolist(), strict=True))
        found._columns = (number, weights, sources)
        return found

    def grouped(self) -> list[tuple[Ints, Floats]]:
        """What each row stands for, and its parts of the row's weight."""
        if self._columns is None:
            lists = (zip(*sources, strict=True) for sources in self._sources.values())
            return [(ints(list(numbers)), floats(list(parts))) for numbers, parts in lists]
        if not self:
            return []
        number, weights, sources = self._columns
        order = np.argsort(number, kind="stable")
        bounds = np.cumsum(np.bincount(number, minlength=len(self)))[:-1]
        parts = np.split(sources[order], bounds), np.split(weights[order], bounds)
        return list(zip(*parts, strict=True))

    def add(self, row: Row, weight: float, source: int) -> None:
        """Count a row `weight` times more, because of `source`."""
        self[row] = self.get(row, 0.0) + weight
        self._sources.setdefault(row, []).append((source, weight))


SLICING = frozenset(
    {"stablehlo.gather", "stablehlo.dynamic_slice", "stablehlo.slice", "chlo.top_k"}
)
CUTTING = frozenset({"stablehlo.dynamic_slice", "stablehlo.slice"})
"""Ops that cut a part out of what they read."""
CONCATENATE = "stablehlo.concatenate"
UPDATING = {UPDATE_SLICE: 1, SCATTER: 2}


def of_role(program: Program, wanted: Role) -> NDArray[np.bool_]:
    """For each op whether it is of a role."""
    named = np.array([role(name) is wanted for name in program.names], dtype=np.bool_)
    return named[program.op_name]
