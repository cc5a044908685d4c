"""All rows of a program, made once: the tables are their columns, explanations ask what is behind.

Nothing here depends on a mesh beyond its layouts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from toast.analysis.program import Floats, Program
from toast.costmodel.hardware.devices import Device
from toast.costmodel.passes.cse import twins
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.layout_assignment import turning
from toast.costmodel.program.buffers import reusing_results
from toast.costmodel.program.contractions import contraction_seconds
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.arguments import argument_rows
from toast.costmodel.terms.deferred_filter_gradients import Deferred, defer
from toast.costmodel.terms.fusions import FusionRow, fusion_rows
from toast.costmodel.terms.halos import HaloRow, halo_rows
from toast.costmodel.terms.live_ranges import LiveRanges, buffer_ranges
from toast.costmodel.terms.memory_floor import floor_rows
from toast.costmodel.terms.partial_sums import Partials, partial_rows
from toast.costmodel.terms.reshard_copies import Copies, positions_of_ops, reshard_copies
from toast.costmodel.terms.reshards import Edges, ReshardRow, Widths, edges, reshard_rows
from toast.costmodel.terms.rows import Rows, passes
from toast.costmodel.terms.sum_buffers import Sums, sum_buffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The weighted rows of each term, and the live ranges over `positions` of the schedule.

    `partials` with the ops that have them; `wanted` what the uses of values want, `sent` the same
    of values and all that are equal to them, which is sent once (`cse`); `passes` of each op over
    its sums; `arguments` by tensor, and how often they are `fetched`.
    """

    wanted: Edges
    sent: Edges
    fusions: Rows[FusionRow]
    partials: Partials
    reshards: Rows[ReshardRow]
    halos: Rows[HaloRow]
    floors: Rows[int]
    passes: Floats
    arguments: Counter[int]
    fetched: Counter[int]
    live_ranges: LiveRanges
    deferred: Deferred
    copies: Copies
    sums: Sums
    positions: int


def list_rows(program: Program, layouts: Layouts, fusion: Fusion, device: Device) -> Listing:
    """The rows of a program as its layouts and its fusion make them."""
    seconds = contraction_seconds(program, device)
    wanted = edges(program, layouts)
    widths = Widths(program, wanted)
    turns = turning(program, fusion)
    equal, first = twins(program, layouts, fusion.policy)
    sent = edges(program, layouts, equal)
    partials = partial_rows(program, layouts, fusion, first)
    reused = reusing_results(program)
    arguments, fetched = argument_rows(program, layouts, reused)
    buffers = buffer_ranges(program, layouts, fusion, reused, turns)
    live_ranges, deferred = defer(program, layouts, fusion, partials, buffers)
    low, high = positions_of_ops(program, fusion)
    return Listing(
        wanted=wanted,
        sent=sent,
        fusions=fusion_rows(program, layouts, fusion, seconds, wanted, widths, turns, first),
        partials=partials,
        reshards=reshard_rows(program, layouts, sent, Widths(program, sent)),
        halos=halo_rows(program, layouts, first),
        floors=floor_rows(program, layouts, fusion),
        passes=passes(program, fusion),
        arguments=arguments,
        fetched=fetched,
        live_ranges=live_ranges,
        deferred=deferred,
        copies=reshard_copies(program, layouts, wanted, widths, low, high),
        sums=sum_buffers(program, layouts, fusion, partials, high, reused),
        positions=program.ops + 1,
    )
