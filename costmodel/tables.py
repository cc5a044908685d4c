"""The tables of a program, made once for a mesh and a device, and the arrays to work on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toast.analysis.analyse import Analysis
from toast.analysis.gc_pause import collector_paused
from toast.analysis.program import Floats, Ints
from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.bounds import Sum
from toast.costmodel.terms.chip_columns import chip_columns
from toast.costmodel.terms.dependents import Dependents
from toast.costmodel.terms.journal import DETAIL, KIND, MEMORY, TABLE, apart
from toast.costmodel.terms.listing import Listing
from toast.costmodel.terms.manual_computations import RegionCost
from toast.costmodel.terms.mesh_columns import item_shards, mesh_columns
from toast.costmodel.terms.tables import (
    TERMS,
    Scratch,
    Tables,
    connected,
    journal_length,
    new_scratch,
)
from toast.costmodel.terms.tensors import tensor_columns
from toast.costmodel.terms.units import fixed_axes, unit_columns

__all__ = [
    "TERMS",
    "Scratch",
    "Sum",
    "Tables",
    "apart",
    "build_tables",
    "journal_length",
    "list_rows",
    "new_scratch",
    "on_mesh",
    "positioned",
]


def list_rows(
    analysis: Analysis,
    layouts: Layouts,
    fusion: Fusion,
    device: Device,
    regions: Sequence[RegionCost],
) -> Listing:
    """The rows of a program as its layouts and its fusion make them."""
    return Listing(analysis.program, layouts, fusion, device, TERMS, regions)


def build_tables(analysis: Analysis, mesh: Mesh, device: Device, listing: Listing) -> Tables:
    """The tables of a program for a mesh of devices."""
    with collector_paused():
        return connected(_parts(analysis, mesh, device, listing))


def _parts(analysis: Analysis, mesh: Mesh, device: Device, listing: Listing) -> Tables:
    layouts, profile = listing.layouts, listing.fusion.profile
    none = np.zeros(0, dtype=np.int64)
    return Tables(
        **{term.name: term.columns(listing.of(term), listing) for term in TERMS},
        units=unit_columns(layouts, analysis, item_shards(mesh, fixed_axes(layouts))),
        tensors=tensor_columns(analysis.program, layouts, profile),
        mesh=mesh_columns(mesh, device, profile),
        chip=chip_columns(device, profile),
        schedule=listing.schedule,
        dependents=Dependents(none, none, none, none),
    )


def on_mesh(tables: Tables, mesh: Mesh, device: Device, profile: CompilerProfile) -> Tables:
    """The same tables for another mesh: little of them depends on it."""
    shards = item_shards(mesh, tables.units.item_fixed)
    return tables._replace(
        units=tables.units._replace(item_shards=shards), mesh=mesh_columns(mesh, device, profile)
    )


def positioned(journal: Floats, event_position: Ints) -> Floats:
    """The journal with memory from and to positions of the schedule instead of events."""
    memory = np.isin(journal[:, TABLE], MEMORY)
    found = journal.copy()
    found[memory, KIND] = event_position[journal[memory, KIND].astype(np.int64)]
    found[memory, DETAIL] = event_position[journal[memory, DETAIL].astype(np.int64) + 1] - 1
    return found
