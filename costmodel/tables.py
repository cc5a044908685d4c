"""The tables of a program, made once for a mesh and a device, and the arrays to work on."""

from __future__ import annotations

import numpy as np

from toast.analysis.analyse import Analysis
from toast.analysis.gc_pause import collector_paused
from toast.analysis.program import Floats, Ints
from toast.costmodel.hardware.devices import Device
from toast.costmodel.listing import Listing
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import policy_of
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.arguments import argument_columns
from toast.costmodel.terms.chip_columns import chip_columns
from toast.costmodel.terms.deferred_filter_gradients import deferred_columns
from toast.costmodel.terms.dependents import Dependents
from toast.costmodel.terms.fusions import fusion_columns
from toast.costmodel.terms.halos import halo_columns
from toast.costmodel.terms.journal import DETAIL, KIND, MEMORY, TABLE
from toast.costmodel.terms.live_ranges import live_range_columns
from toast.costmodel.terms.memory_floor import floor_columns
from toast.costmodel.terms.mesh_columns import item_shards, mesh_columns
from toast.costmodel.terms.partial_sums import partial_sum_columns
from toast.costmodel.terms.reshard_copies import copy_columns
from toast.costmodel.terms.reshards import reshard_columns
from toast.costmodel.terms.schedule import schedule_of
from toast.costmodel.terms.sum_buffers import sum_columns
from toast.costmodel.terms.tables import (
    Scratch,
    Tables,
    apart,
    connected,
    entries,
    new_scratch,
)
from toast.costmodel.terms.tensors import tensor_columns
from toast.costmodel.terms.units import fixed_axes, unit_columns

__all__ = ["Scratch", "Tables", "apart", "build_tables", "entries", "new_scratch", "on_mesh"]


def build_tables(
    analysis: Analysis, mesh: Mesh, device: Device, layouts: Layouts, listing: Listing
) -> Tables:
    """The tables of a program for a mesh of devices; `layouts` are behind their numbers."""
    with collector_paused():
        return _build(analysis, mesh, device, layouts, listing)


def _build(
    analysis: Analysis, mesh: Mesh, device: Device, layouts: Layouts, listing: Listing
) -> Tables:
    tiled = policy_of(device).around
    arguments = argument_columns(listing.arguments, listing.fetched)
    begins = (listing.live_ranges.first, listing.copies.first, listing.sums.at)
    schedule = schedule_of(begins, listing.positions)
    none = np.zeros(0, dtype=np.int64)
    return connected(
        Tables(
            units=unit_columns(layouts, analysis, item_shards(mesh, fixed_axes(layouts))),
            tensors=tensor_columns(analysis.program, layouts, arguments.tensor, tiled),
            mesh=mesh_columns(mesh, device),
            chip=chip_columns(device),
            schedule=schedule,
            fusions=fusion_columns(listing.fusions),
            partial_sums=partial_sum_columns(listing.partials, listing.passes, tiled),
            reshards=reshard_columns(listing.reshards),
            halos=halo_columns(listing.halos),
            floors=floor_columns(listing.floors),
            arguments=arguments,
            live_ranges=live_range_columns(listing.live_ranges, schedule),
            deferred=deferred_columns(listing.deferred),
            copies=copy_columns(listing.copies, schedule),
            sums=sum_columns(listing.sums, schedule),
            dependents=Dependents(none, none, none, none),
        )
    )


def on_mesh(tables: Tables, mesh: Mesh, device: Device) -> Tables:
    """The same tables for another mesh: little of them depends on it."""
    shards = item_shards(mesh, tables.units.item_fixed)
    return tables._replace(
        units=tables.units._replace(item_shards=shards), mesh=mesh_columns(mesh, device)
    )


def positioned(journal: Floats, event_position: Ints) -> Floats:
    """The journal with memory from and to positions of the schedule instead of events."""
    memory = np.isin(journal[:, TABLE], MEMORY)
    told = journal.copy()
    told[memory, KIND] = event_position[journal[memory, KIND].astype(np.int64)]
    told[memory, DETAIL] = event_position[journal[memory, DETAIL].astype(np.int64) + 1] - 1
    return told
