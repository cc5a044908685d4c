"""All rows of a program, made once: the tables are their columns, explanations ask what is behind.

Nothing here depends on a mesh beyond its layouts.
"""

from __future__ import annotations

from dataclasses import dataclass

from toast.analysis.program import Floats, Program
from toast.costmodel.hardware.devices import Device
from toast.costmodel.passes.cse import twins
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.layout_assignment import turning
from toast.costmodel.program.contractions import contraction_seconds
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.buffer_assignment import Intervals, live_intervals
from toast.costmodel.terms.fusion_rows import RootRow, root_rows
from toast.costmodel.terms.memory_floor import floor_rows
from toast.costmodel.terms.partial_sum_rows import Partials, partial_rows
from toast.costmodel.terms.reshard_rows import Edges, Widths, edge_rows, edges
from toast.costmodel.terms.rows import EdgeRow, HaloRow, Rows, halo_rows, passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The weighted rows of each table, as in `rows`, and the live ranges.

    `partials` with the ops that have them; `wanted` what the uses of values want, `sent` the same
    of values and all that are equal to them, which is sent once (`twins`);
    `floors` as in that module; `passes` of each op over its sums.
    """

    wanted: Edges
    sent: Edges
    roots: Rows[RootRow]
    partials: Partials
    edges: Rows[EdgeRow]
    halos: Rows[HaloRow]
    floors: Rows[int]
    passes: Floats
    intervals: Intervals


def list_rows(program: Program, layouts: Layouts, fusion: Fusion, device: Device) -> Listing:
    """The rows of a program as its layouts and its fusion make them."""
    seconds = contraction_seconds(program, device)
    wanted = edges(program, layouts)
    widths = Widths(program, wanted)
    turns = turning(program, fusion)
    equal, first = twins(program, layouts, fusion.policy)
    sent = edges(program, layouts, equal)
    partials = partial_rows(program, layouts, fusion, first)
    return Listing(
        wanted=wanted,
        sent=sent,
        roots=root_rows(program, layouts, fusion, seconds, wanted, widths, turns, first),
        partials=partials,
        edges=edge_rows(program, layouts, sent, Widths(program, sent)),
        halos=halo_rows(program, layouts, first),
        floors=floor_rows(program, layouts, fusion),
        passes=passes(program, fusion),
        intervals=live_intervals(program, layouts, fusion, wanted, widths, partials, turns),
    )
