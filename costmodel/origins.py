"""What the rows of the tables stand for: kernels, ops, values and uses of the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.listing import Listing
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.rows import Row, Source

Sources = list[list[Source]]
"""For each row of a table what it is made of, and its part of the row's weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """By table, in the order of its rows.

    `roots` are numbers of `fusion.kernels`, in columns, `partials` ops, `edges` values, `halos`
    uses; `base` the values of each row, `live` the value that stands for a buffer, `copies` a value
    and the uses that the copy is for, `sums` an op, `floors` the ops that read or write.
    """

    roots: list[tuple[Ints, Floats]]
    partials: Sources
    edges: Sources
    halos: Sources
    base: list[list[int]]
    live: list[int]
    copies: list[tuple[int, tuple[int, ...]]]
    sums: list[int]
    floors: Sources


def trace(program: Program, layouts: Layouts, listing: Listing) -> Origins:
    """What the rows of a listing are made of."""
    uses = listing.wanted.uses.tolist()
    base: dict[int, list[int]] = {tensor: [] for tensor in listing.arguments}
    for argument in program.arguments:
        base[int(layouts.value_tensor[argument.value])].append(argument.value)
    return Origins(
        roots=listing.fusions.grouped(),
        partials=_partials(listing),
        edges=_listed(listing.reshards.sources),
        halos=_listed(listing.halos.sources),
        base=list(base.values()),
        live=listing.live_ranges.value.tolist(),
        copies=[
            (value, tuple(uses[first:end]))
            for value, (first, end) in zip(
                listing.wanted.value.tolist(),
                pairwise(listing.wanted.use_start.tolist()),
                strict=True,
            )
        ],
        sums=listing.sums.op.tolist(),
        floors=_listed(listing.floors.sources),
    )


def _listed(sources: Mapping[Row, list[Source]]) -> Sources:
    return list(sources.values())


def _partials(listing: Listing) -> Sources:
    partials = listing.partials
    found: Sources = [[] for _ in partials.rows]
    columns = (partials.ops.tolist(), partials.row.tolist(), partials.trips.tolist())
    for op, row, runs in zip(*columns, strict=True):
        if runs:
            found[row].append((op, runs))
    return found
