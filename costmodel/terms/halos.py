"""Strips that neighbours exchange, where an operand is split along a factor that needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import FactorKind, Floats, Ints, Program
from toast.costmodel.program.arrays import floats, ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.rows import WeightedRows
from toast.costmodel.terms.sources import Sent, Sources
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds
    from toast.costmodel.terms.listing import Listing

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


def halo_rows(listing: Listing) -> WeightedRows[HaloRow]:
    """Operands split along a factor that needs a neighbour's strip; the sources are uses."""
    program, layouts, first = listing.program, listing.layouts, listing.first_op
    rows: WeightedRows[HaloRow] = WeightedRows()
    for op, names in factors_by_op(program, FactorKind.HALO).items():
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


def factors_by_op(program: Program, kind: FactorKind) -> dict[int, list[int]]:
    """The factors of one kind, by op."""
    names = np.flatnonzero(program.factor_kind == kind)
    ops = np.searchsorted(program.op_factors, names, side="right") - 1
    found: dict[int, list[int]] = {}
    for op, name in zip(ops.tolist(), names.tolist(), strict=True):
        found.setdefault(op, []).append(name)
    return found


def halo_columns(rows: WeightedRows[HaloRow], _listing: Listing) -> Halos:
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


def halo_dependencies(halos: Halos, owners: OwningUnits) -> Pairs:
    """A strip depends on the item that is split and on the tensor."""
    row = np.arange(len(halos.weight))
    return paired((row, owners.item[halos.item]), (row, owners.tensor[halos.tensor]))


def _sent(sources: Sources, row: int, _place: int) -> list[Sent]:
    """The operand and its op, of each use of a row."""
    program, uses = sources.program, sources.of_row(HALOS, row)
    return [(program.sources[use], (program.user(use),), runs) for use, runs in uses]


def _bound(bounds: Bounds) -> None:
    """Strips of tensors that the item's own unit lays out: what depends on two units is nothing."""
    halos = bounds.tables.halos
    for row in range(len(halos.weight)):
        unit = bounds.unit_of_item(int(halos.item[row]))
        if bounds.unit_of_tensor(int(halos.tensor[row])) == unit:
            bounds.add(unit, bounds.exchange(row))


HALOS = Term(
    name="halos",
    kernel="reshard.price_halos",
    list_rows=halo_rows,
    columns=halo_columns,
    rows=lambda halos: len(halos.weight),
    dependencies=halo_dependencies,
    scratch=halo_scratch,
    entries=lambda halos: len(halos.weight),
    sent={Entry.HALO: _sent},
    bound=_bound,
)
