"""The kinds of rows together: what the kernels read, and the arrays that they work on.

Each part is a record of its own, in the file of its kind.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.analysis.records import record
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.terms.arguments import Arguments
from toast.costmodel.terms.chip_columns import Chip
from toast.costmodel.terms.deferred_filter_gradients import DeferredColumns, deferred_dependencies
from toast.costmodel.terms.dependents import Dependents, Owners, Pairs, dependents, owners
from toast.costmodel.terms.fusions import (
    Fusions,
    FusionScratch,
    fusion_dependencies,
    fusion_scratch,
)
from toast.costmodel.terms.halos import Halos, HaloScratch, halo_dependencies, halo_scratch
from toast.costmodel.terms.journal import COLUMNS, LINE, Journal
from toast.costmodel.terms.live_ranges import (
    LiveRangeColumns,
    LiveRangeScratch,
    live_range_dependencies,
    live_range_scratch,
)
from toast.costmodel.terms.memory_floor import Floors
from toast.costmodel.terms.mesh_columns import MeshColumns
from toast.costmodel.terms.partial_sums import (
    PartialSums,
    PartialSumScratch,
    partial_sum_dependencies,
    partial_sum_scratch,
)
from toast.costmodel.terms.reshard_copies import (
    CopyColumns,
    CopyScratch,
    copy_dependencies,
    copy_scratch,
)
from toast.costmodel.terms.reshards import (
    Reshards,
    ReshardScratch,
    reshard_dependencies,
    reshard_scratch,
)
from toast.costmodel.terms.schedule import Schedule, ScheduleScratch, schedule_scratch
from toast.costmodel.terms.sum_buffers import SumColumns, SumScratch, sum_dependencies, sum_scratch
from toast.costmodel.terms.tensors import Tensors, TensorScratch, tensor_scratch
from toast.costmodel.terms.units import Units, UnitScratch, unit_scratch


@record
class Tables(NamedTuple):
    """All that the kernels read, made once for a program, a mesh and a device.

    Things that cost the same in every state are one row with a weight: ops of repeated layers
    whose colours are tied, resharding of equal values, fusions of equal shape.
    """

    units: Units
    tensors: Tensors
    mesh: MeshColumns
    chip: Chip
    schedule: Schedule
    fusions: Fusions
    partial_sums: PartialSums
    reshards: Reshards
    halos: Halos
    floors: Floors
    arguments: Arguments
    live_ranges: LiveRangeColumns
    deferred: DeferredColumns
    copies: CopyColumns
    sums: SumColumns
    dependents: Dependents


class Changes(NamedTuple):
    """The masks that were `priced` last, and which rows of all terms are `stale` since."""

    priced: Ints
    stale: Bools


class AxisOrderScratch(NamedTuple):
    """By move what it needs of the order of axes: those that `stay` are to lead those that `go`.

    Moves are results of ops with partial sums, then what uses want. Of each the row and the colour
    `group`, how often it runs (`times`), `bytes` and `seconds`. `ahead` [groups, axes, axes] is
    what it is worth to a colour that one axis leads another.
    """

    row: Ints
    group: Ints
    stay: Ints
    go: Ints
    times: Floats
    bytes: Floats
    seconds: Floats
    ahead: Floats


class ReduceScatterScratch(NamedTuple):
    """By result the `axes` over which its sums are scattered, if several, its row and colour.

    `bytes` of one, and whether it is summed `whole` for the order of axes.
    """

    axes: Ints
    row: Ints
    group: Ints
    bytes: Floats
    whole: Bools


class CombinerScratch(NamedTuple):
    """[results, 2] the `axes` and the `cost` of what is scattered of a result and of what is not.

    `joint` is what is sent together, by loop, of both kinds, over each set of axes.
    """

    axes: Ints
    cost: Floats
    joint: Floats


@record
class Scratch(NamedTuple):
    """The working arrays of one thread: the state, what its rows cost, and what changed.

    With a `journal` that has room it tells of all that was added up.
    """

    units: UnitScratch
    tensors: TensorScratch
    fusions: FusionScratch
    partial_sums: PartialSumScratch
    reshards: ReshardScratch
    halos: HaloScratch
    live_ranges: LiveRangeScratch
    copies: CopyScratch
    sums: SumScratch
    schedule: ScheduleScratch
    axis_order: AxisOrderScratch
    reduce_scatters: ReduceScatterScratch
    combiner: CombinerScratch
    changes: Changes
    journal: Journal


def connected(tables: Tables) -> Tables:
    """The tables with what depends on which unit."""
    owner = owners(tables.units, tables.tensors)
    pairs = list(_pairs(tables, owner).values())
    return tables._replace(dependents=dependents(tables.units, owner, pairs))


def _pairs(t: Tables, owner: Owners) -> dict[str, tuple[int, Pairs]]:
    """By term how many rows it has, and which units these depend on."""
    partial = partial_sum_dependencies(t.partial_sums, owner)
    deferred = deferred_dependencies(t.deferred, owner, partial)
    pairs = {
        "fusions": fusion_dependencies(t.fusions, owner),
        "partial_sums": partial,
        "reshards": reshard_dependencies(t.reshards, owner),
        "halos": halo_dependencies(t.halos, owner),
        "live_ranges": live_range_dependencies(t.live_ranges, owner, deferred),
        "copies": copy_dependencies(t.copies, owner),
        "sums": sum_dependencies(t.sums, owner, partial),
    }
    return {name: (count, pairs[name]) for name, count in row_counts(t).items()}


def row_counts(t: Tables) -> dict[str, int]:
    """By term how many of its rows are priced again where a unit changes."""
    return {
        "fusions": len(t.fusions.weight),
        "partial_sums": len(t.partial_sums.weight),
        "reshards": len(t.reshards.weight),
        "halos": len(t.halos.weight),
        "live_ranges": len(t.live_ranges.tensor),
        "copies": len(t.copies.kind_source),
        "sums": len(t.sums.row),
    }


def apart(count: int, dtype: type[np.generic]) -> Any:
    """A short array of zeros that shares no cache line with another thread's."""
    return np.zeros(count + LINE // np.dtype(dtype).itemsize, dtype=dtype)[:count]


def new_scratch(t: Tables, entries: int = 0) -> Scratch:
    """Working arrays that fit the tables; with a journal where it is to have entries."""
    counts = row_counts(t)
    stale = np.zeros(sum(counts.values()), dtype=np.bool_)
    bounds = np.cumsum([0, *counts.values()]).tolist()
    of = {name: stale[a:b] for name, (a, b) in zip(counts, pairwise(bounds), strict=True)}
    return Scratch(
        units=unit_scratch(t.units),
        tensors=tensor_scratch(t.tensors),
        fusions=fusion_scratch(t.fusions, of["fusions"]),
        partial_sums=partial_sum_scratch(t.partial_sums, of["partial_sums"]),
        reshards=reshard_scratch(t.reshards, of["reshards"]),
        halos=halo_scratch(t.halos, of["halos"]),
        live_ranges=live_range_scratch(t.live_ranges, of["live_ranges"]),
        copies=copy_scratch(t.copies, of["copies"]),
        sums=sum_scratch(t.sums, of["sums"]),
        schedule=schedule_scratch(t.schedule),
        axis_order=_axis_order(t),
        reduce_scatters=_reduce_scatters(t),
        combiner=_combiner(t),
        changes=Changes(priced=np.zeros(len(t.units.item_group), dtype=np.int64), stale=stale),
        journal=Journal(entries=np.zeros((entries, COLUMNS)), noted=apart(5, np.int64)),
    )


def _axis_order(t: Tables) -> AxisOrderScratch:
    moves = len(t.partial_sums.computed) + len(t.reshards.target)
    groups, axes = len(t.units.touch_start) - 1, len(t.mesh.axis_size)
    row, group, stay, go = (np.zeros(moves, dtype=np.int64) for _ in range(4))
    count, size, seconds = (np.zeros(moves) for _ in range(3))
    ahead = np.zeros((groups, axes, axes))
    return AxisOrderScratch(row, group, stay, go, count, size, seconds, ahead)


def _reduce_scatters(t: Tables) -> ReduceScatterScratch:
    results = len(t.partial_sums.computed)
    axes, row, group = (np.zeros(results, dtype=np.int64) for _ in range(3))
    whole = np.zeros(results, dtype=np.bool_)
    return ReduceScatterScratch(axes, row, group, np.zeros(results), whole)


def _combiner(t: Tables) -> CombinerScratch:
    results, loops = len(t.partial_sums.computed), len(t.partial_sums.loop_runs)
    return CombinerScratch(
        axes=np.zeros((results, 2), dtype=np.int64),
        cost=np.zeros((results, 2, 3)),
        joint=np.zeros((loops, 2, t.mesh.wire.shape[1], 3)),
    )


def entries(t: Tables) -> int:
    """How many entries one evaluation writes at most, and one: an edge or a result has up to 5."""
    return (
        1
        + len(t.fusions.weight)
        + 6 * len(t.partial_sums.computed)
        + 5 * len(t.reshards.target)
        + 2 * len(t.reshards.target)
        + len(t.halos.weight)
        + len(t.arguments.tensor)
        + len(t.live_ranges.tensor)
        + len(t.copies.tensor)
        + 2 * len(t.sums.row)
        + len(t.floors.tensor)
    )
