"""All rows of a program, made once: the tables are their columns, explanations ask what is behind.

Nothing here depends on a mesh beyond its layouts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from analysis.program import Program
from costmodel.devices import Device
from costmodel.floors import floor_rows
from costmodel.flops import contraction_seconds
from costmodel.fusion import Fusion
from costmodel.layouts import Layouts
from costmodel.liveness import Intervals, live_intervals
from costmodel.rootrows import RootRow, root_rows
from costmodel.rows import (
    EdgeRow,
    Edges,
    HaloRow,
    PartialRow,
    Rows,
    edge_rows,
    edges,
    halo_rows,
    partial_rows,
    passes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The weighted rows of each table, as in `rows`, and the live ranges.

    `seconds` of the whole of each contraction on one device; `part_of` the row among the partials
    of each op that has one; `wanted` what the uses of values want;
    `floors` as in that module; `passes` over the sums of products.
    """

    seconds: dict[int, float]
    wanted: Edges
    roots: Rows[RootRow]
    partials: Counter[PartialRow]
    part_of: dict[int, int]
    edges: Rows[EdgeRow]
    halos: Rows[HaloRow]
    floors: Rows[int]
    passes: dict[int, float]
    intervals: Intervals


def list_rows(program: Program, layouts: Layouts, fusion: Fusion, device: Device) -> Listing:
    """The rows of a program as its layouts and its fusion make them."""
    seconds = contraction_seconds(program, device)
    wanted = edges(program, layouts)
    partials, part_of = partial_rows(program, layouts, fusion.sides)
    return Listing(
        seconds=seconds,
        wanted=wanted,
        roots=root_rows(program, layouts, fusion, seconds, wanted),
        partials=partials,
        part_of=part_of,
        edges=edge_rows(program, layouts, wanted),
        halos=halo_rows(program, layouts),
        floors=floor_rows(program, layouts, fusion),
        passes=passes(program, fusion),
        intervals=live_intervals(program, layouts, fusion, wanted, part_of),
    )
