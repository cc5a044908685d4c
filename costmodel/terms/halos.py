"""Strips that neighbours exchange, where an operand is split along a factor that needs them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import FactorKind, Floats, Ints, Program
from toast.costmodel.program.arrays import floats, ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.dependents import Owners, Pairs, paired
from toast.costmodel.terms.rows import Rows

HaloRow = tuple[int, int, float]
"""(item, tensor, the strip's part of the whole dimension)."""


class Halos(NamedTuple):
    """The columns of the rows; see `HaloRow`."""

    weight: Floats
    item: Ints
    tensor: Ints
    part: Floats


class HaloScratch(NamedTuple):
    """`stale` rows are to be priced again; `seconds` of each."""

    stale: Bools
    seconds: Floats


def halo_rows(program: Program, layouts: Layouts, first: Ints) -> Rows[HaloRow]:
    """Operands split along a factor that needs a neighbour's strip; `first` as in `cse`.

    The sources are uses.
    """
    rows: Rows[HaloRow] = Rows()
    for op, names in _factors_by_op(program, FactorKind.HALO).items():
        if first[op] != op:
            continue
        start = layouts.unit_start[layouts.op_unit[op]] - int(program.op_factors[op])
        for name in names:
            if not program.factor_halo[name]:
                continue
            for use in program.uses_of(op):
                dims = program.use_names(use).tolist()
                if name in dims:
                    shape = program.shape(program.sources[use])
                    part = int(program.factor_halo[name]) / shape[dims.index(name)]
                    row = (start + name, int(layouts.use_tensor[use]), part)
                    rows.add(row, float(program.op_trips[op]), use)
    return rows


def _factors_by_op(program: Program, kind: FactorKind) -> dict[int, list[int]]:
    """The factors of one kind, by op."""
    names = np.flatnonzero(program.factor_kind == kind)
    ops = np.searchsorted(program.op_factors, names, side="right") - 1
    found: dict[int, list[int]] = {}
    for op, name in zip(ops.tolist(), names.tolist(), strict=True):
        found.setdefault(op, []).append(name)
    return found


def halo_columns(rows: Rows[HaloRow]) -> Halos:
    """The rows as columns."""
    return Halos(
        weight=floats(list(rows.values())),
        item=ints([item for item, _, _ in rows]),
        tensor=ints([tensor for _, tensor, _ in rows]),
        part=floats([part for _, _, part in rows]),
    )


def halo_scratch(halos: Halos, stale: Bools) -> HaloScratch:
    """Working arrays for these rows."""
    return HaloScratch(stale=stale, seconds=np.zeros(len(halos.weight)))


def halo_dependencies(halos: Halos, owner: Owners) -> Pairs:
    """A strip depends on the item that is split and on the tensor."""
    row = np.arange(len(halos.weight))
    return paired((row, owner.item[halos.item]), (row, owner.tensor[halos.tensor]))
