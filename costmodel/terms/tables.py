"""The list of terms, and what is composed of it: tables, scratch, dependencies, journal.

A new kind of row has three lines here: in `TERMS`, in `Tables`, and in `Scratch` if it has one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.analysis.records import record
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.terms.arguments import ARGUMENTS, Arguments
from toast.costmodel.terms.chip_columns import ChipColumns
from toast.costmodel.terms.deferred_filter_gradients import DEFERRED, DeferredColumns
from toast.costmodel.terms.dependents import Dependents, dependents, owning_units
from toast.costmodel.terms.fusions import FUSIONS, Fusions, FusionScratch
from toast.costmodel.terms.halos import HALOS, Halos, HaloScratch
from toast.costmodel.terms.journal import COLUMNS, LINE, Journal
from toast.costmodel.terms.live_ranges import LIVE_RANGES, LiveRangeColumns, LiveRangeScratch
from toast.costmodel.terms.memory_floor import FLOORS, Floors
from toast.costmodel.terms.mesh_columns import MeshColumns
from toast.costmodel.terms.partial_sums import PARTIAL_SUMS, PartialSums, PartialSumScratch
from toast.costmodel.terms.reshard_copies import COPIES, CopyColumns, CopyScratch
from toast.costmodel.terms.reshards import RESHARDS, Reshards, ReshardScratch
from toast.costmodel.terms.schedule import Schedule, ScheduleScratch, schedule_scratch
from toast.costmodel.terms.sum_buffers import SUMS, SumColumns, SumScratch
from toast.costmodel.terms.tensors import Tensors, TensorScratch, tensor_scratch
from toast.costmodel.terms.term import Term
from toast.costmodel.terms.units import Units, UnitScratch, unit_scratch
from toast.costmodel.terms.updated_reads import (
    UPDATED_READS,
    UpdatedReads,
    UpdatedReadScratch,
)

TERMS: tuple[Term[Any, Any], ...] = (
    FUSIONS,
    PARTIAL_SUMS,
    RESHARDS,
    HALOS,
    FLOORS,
    UPDATED_READS,
    ARGUMENTS,
    DEFERRED,
    LIVE_RANGES,
    SUMS,
    COPIES,
)
"""All kinds of cost rows. One that depends on another's rows comes behind it."""


@record
class Tables(NamedTuple):
    """All that the kernels read, made once for a program, a mesh and a device.

    Things that cost the same in every state are one row with a weight: ops of repeated layers
    whose colours are tied, resharding of equal values, fusions of equal shape.
    """

    units: Units
    tensors: Tensors
    mesh: MeshColumns
    chip: ChipColumns
    schedule: Schedule
    fusions: Fusions
    partial_sums: PartialSums
    reshards: Reshards
    halos: Halos
    floors: Floors
    updated_reads: UpdatedReads
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
    """By move what it costs where a dimension has not the order of axes that it wants.

    Moves are results of ops with partial sums, then what uses want. Of each the row, the `axes` of
    such dimensions, how often it runs (`times`), `bytes` and `seconds`. `ahead` [groups, axes,
    axes] is what it is worth to a colour that one axis leads another, `follows` the same of sums
    where no move speaks for these, `place` [groups, axes] where each axis comes in the order that
    is found.
    """

    row: Ints
    axes: Ints
    times: Floats
    bytes: Floats
    seconds: Floats
    ahead: Floats
    follows: Floats
    place: Ints


class ReduceScatterScratch(NamedTuple):
    """By result the `axes` that one dimension takes of its sums, if these are all and several.

    Of such a result its row, the item that takes the axes, `bytes` of one, and whether it is summed
    `whole` for the order of axes. Of every result the `reason` why its sums are sent as they are
    (a `CollectiveReason`), and whether the written module has it `constrained` before its sums to
    the layout that its op makes; where `ordered` that depends on the order of axes.
    """

    axes: Ints
    row: Ints
    item: Ints
    bytes: Floats
    whole: Bools
    reason: Ints
    constrained: Bools
    ordered: Bools


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
    updated_reads: UpdatedReadScratch
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
    owners = owning_units(tables.units, tables.tensors)
    for term in TERMS:
        if term.dependencies is not None:
            columns = getattr(tables, term.name)
            owners.terms[term.name] = term.dependencies(columns, owners)
    pairs = [(rows, owners.terms[name]) for name, rows in _kept(tables)]
    return tables._replace(dependents=dependents(tables.units, owners, pairs))


def _kept(tables: Tables) -> list[tuple[str, int]]:
    """The terms whose rows are kept from state to state, and how many rows each has."""
    kept = (term for term in TERMS if term.scratch is not None)
    return [(term.name, term.rows(getattr(tables, term.name))) for term in kept]


def apart(count: int, dtype: type[np.generic]) -> Any:
    """A short array of zeros that shares no cache line with another thread's."""
    return np.zeros(count + LINE // np.dtype(dtype).itemsize, dtype=dtype)[:count]


def new_scratch(t: Tables, entries: int = 0) -> Scratch:
    """Working arrays that fit the tables; with a journal where it is to have entries."""
    counts = dict(_kept(t))
    bounds = np.cumsum([0, *counts.values()]).tolist()
    stale = np.zeros(bounds[-1], dtype=np.bool_)
    spans = dict(zip(counts, pairwise(bounds), strict=True))
    arrays = {
        term.name: term.scratch(getattr(t, term.name), stale[slice(*spans[term.name])])
        for term in TERMS
        if term.scratch is not None
    }
    return Scratch(
        **arrays,
        units=unit_scratch(t.units),
        tensors=tensor_scratch(t.tensors),
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
    row, moved = (np.zeros(moves, dtype=np.int64) for _ in range(2))
    count, size, seconds = (np.zeros(moves) for _ in range(3))
    ahead, follows = (np.zeros((groups, axes, axes)) for _ in range(2))
    place = np.tile(np.arange(axes, dtype=np.int64), (groups, 1))
    return AxisOrderScratch(row, moved, count, size, seconds, ahead, follows, place)


def _reduce_scatters(t: Tables) -> ReduceScatterScratch:
    results = len(t.partial_sums.computed)
    axes, row, item, reason = (np.zeros(results, dtype=np.int64) for _ in range(4))
    whole, constrained, ordered = (np.zeros(results, dtype=np.bool_) for _ in range(3))
    size = np.zeros(results)
    return ReduceScatterScratch(axes, row, item, size, whole, reason, constrained, ordered)


def _combiner(t: Tables) -> CombinerScratch:
    results, loops = len(t.partial_sums.computed), len(t.partial_sums.loop_runs)
    return CombinerScratch(
        axes=np.zeros((results, 2), dtype=np.int64),
        cost=np.zeros((results, 2, 3)),
        joint=np.zeros((loops, 2, t.mesh.wire.shape[1], 3)),
    )


def journal_length(t: Tables) -> int:
    """How many entries one evaluation writes at most, and one."""
    return 1 + sum(term.entries(getattr(t, term.name)) for term in TERMS)
