"""What the rows of the tables stand for: kernels, ops, values and uses of the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.program import Program
from costmodel.devices import Device
from costmodel.flops import contraction_seconds
from costmodel.fusion import Fusion
from costmodel.layouts import Layouts
from costmodel.liveness import live_intervals
from costmodel.rows import Row, Source, edge_rows, edges, halo_rows, partial_rows, root_rows

Sources = list[list[Source]]
"""For each row of a table what it is made of, and its part of the row's weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """By table, in the order of its rows.

    `roots` are numbers of `fusion.kernels`, `partials` ops, `edges` values, `halos` uses; `base`
    the values of each row, `live` the value that stands for a buffer, `copies` a value and the
    uses that the copy is for, `sums` an op, `feeds` a use.
    """

    roots: Sources
    partials: Sources
    edges: Sources
    halos: Sources
    base: list[list[int]]
    live: list[int]
    copies: list[tuple[int, tuple[int, ...]]]
    sums: list[int]
    feeds: list[int]


def trace(program: Program, layouts: Layouts, fusion: Fusion, device: Device) -> Origins:
    """Make the rows again as `build_tables` does, and keep what they are made of."""
    intervals = live_intervals(program, layouts, fusion)
    base: dict[int, list[int]] = {tensor: [] for tensor in intervals.base}
    for argument in program.arguments:
        base[int(layouts.value_tensor[argument.value])].append(argument.value)
    roots = root_rows(program, layouts, fusion, contraction_seconds(program, device))
    return Origins(
        roots=_listed(roots.sources),
        partials=_partials(program, layouts),
        edges=_listed(edge_rows(program, layouts).sources),
        halos=_listed(halo_rows(program, layouts).sources),
        base=list(base.values()),
        live=[*intervals.live, *(value for value, _ in intervals.beside)],
        copies=[
            (value, tuple(uses))
            for value, targets in edges(program, layouts).items()
            for _, uses in targets.values()
        ],
        sums=list(intervals.sums),
        feeds=list(intervals.feeds),
    )


def _listed(sources: Mapping[Row, list[Source]]) -> Sources:
    return list(sources.values())


def _partials(program: Program, layouts: Layouts) -> Sources:
    rows, of_op = partial_rows(program, layouts)
    found: Sources = [[] for _ in rows]
    for op, row in of_op.items():
        found[row].append((op, float(program.op_trips[op])))
    return found
