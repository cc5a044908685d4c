"""What is composed of the terms: tables, scratch, dependencies, journal.

A kind of row has one line in `Tables`, and one in `Scratch` if its rows are kept: Numba takes named
tuples, and the type checker knows only fields that are written down.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from toast.analysis.records import record
from toast.costmodel.terms.arguments import Arguments
from toast.costmodel.terms.axis_orders import AxisOrderScratch, axis_order_scratch
from toast.costmodel.terms.chip_columns import ChipColumns
from toast.costmodel.terms.combined_sums import CombinerScratch, combiner_scratch
from toast.costmodel.terms.dependents import (
    Changes,
    Dependents,
    changes_of,
    dependents,
    owning_units,
)
from toast.costmodel.terms.fusions import Fusions, FusionScratch
from toast.costmodel.terms.halos import Halos, HaloScratch
from toast.costmodel.terms.journal import Journal, journal_of
from toast.costmodel.terms.live_ranges import LiveRangeColumns, LiveRangeScratch
from toast.costmodel.terms.manual_computations import ManualComputations
from toast.costmodel.terms.memory_floor import Floors
from toast.costmodel.terms.mesh_columns import MeshColumns
from toast.costmodel.terms.partial_sums import PartialSums, PartialSumScratch
from toast.costmodel.terms.reduce_scatters import ReduceScatterScratch, reduce_scatter_scratch
from toast.costmodel.terms.reshard_copies import CopyColumns, CopyScratch
from toast.costmodel.terms.reshards import Reshards, ReshardScratch
from toast.costmodel.terms.schedule import Schedule, ScheduleScratch, schedule_scratch
from toast.costmodel.terms.sum_buffers import SumColumns, SumScratch
from toast.costmodel.terms.tensors import Tensors, TensorScratch, tensor_scratch
from toast.costmodel.terms.term import Term
from toast.costmodel.terms.units import Units, UnitScratch, unit_scratch
from toast.costmodel.terms.updated_reads import UpdatedReads, UpdatedReadScratch


@record
class Tables(NamedTuple):
    """All that the kernels read, made once for a program, a mesh and a device.

    Things that cost the same in every state are one row with a weight: ops of repeated layers
    whose colours are tied, resharding of equal values, fusions of equal shape. The columns of a
    term that depends on another's rows come behind those.
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
    sums: SumColumns
    copies: CopyColumns
    manual_computations: ManualComputations
    dependents: Dependents


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


def _terms() -> tuple[Term[Any, Any], ...]:
    """The term of each field of `Tables` that has one, from the file of its columns."""
    files = {name: vars(sys.modules[of.__module__]) for name, of in get_type_hints(Tables).items()}
    return tuple(
        one
        for name, file in files.items()
        for one in file.values()
        if isinstance(one, Term) and one.name == name
    )


TERMS = _terms()
"""All kinds of cost rows, in the order of `Tables`."""


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


def new_scratch(t: Tables, entries: int = 0) -> Scratch:
    """Working arrays that fit the tables; with a journal where it is to have entries."""
    counts = dict(_kept(t))
    bounds = np.cumsum([0, *counts.values()]).tolist()
    changes = changes_of(t.units, bounds[-1])
    spans = dict(zip(counts, pairwise(bounds), strict=True))
    arrays = {
        term.name: term.scratch(getattr(t, term.name), changes.stale[slice(*spans[term.name])])
        for term in TERMS
        if term.scratch is not None
    }
    return Scratch(
        **arrays,
        units=unit_scratch(t.units),
        tensors=tensor_scratch(t.tensors),
        schedule=schedule_scratch(t.schedule),
        axis_order=axis_order_scratch(t.units, t.mesh, t.partial_sums, t.reshards),
        reduce_scatters=reduce_scatter_scratch(t.partial_sums),
        combiner=combiner_scratch(t.mesh, t.partial_sums),
        changes=changes,
        journal=journal_of(entries),
    )


def journal_length(t: Tables) -> int:
    """How many entries one evaluation writes at most, and one."""
    return 1 + sum(term.entries(getattr(t, term.name)) for term in TERMS)
