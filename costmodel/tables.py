"""All that the kernels read, made once per (program, mesh, device) as flat arrays.

Things that cost the same in every state are one row with a weight: ops of repeated layers whose
colours are tied, resharding of equal values, fusions of equal shape.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toast.analysis.analyse import Analysis
from toast.analysis.gc_pause import collector_paused
from toast.analysis.program import Floats, Ints
from toast.analysis.records import record
from toast.costmodel.dependencies import dependency_columns
from toast.costmodel.hardware.devices import Device
from toast.costmodel.listing import Listing
from toast.costmodel.network.collectives import collective_tables
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import policy_of
from toast.costmodel.passes.space_to_batch import Image, Shape, image_rows, images
from toast.costmodel.program.arrays import flat, floats, ints, starts
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.chip_columns import chip_columns
from toast.costmodel.terms.fusion_columns import root_columns
from toast.costmodel.terms.live_range_columns import memory_columns
from toast.costmodel.terms.partial_sum_columns import partial_columns
from toast.costmodel.terms.rows import EdgeRow, HaloRow, Rows


@record
class Tables(NamedTuple):
    """Arrays for the kernels; `X_start` has one entry more than there are X.

    Units and items as in `layouts`: the axes fixed on an item (`fixed_axis` in order) and their
    product, the axes forbidden to a unit; `touch_*`: colour group -> units that have it. Tensors:
    `tensor_itemsize` bytes, per dimension `dim_size` and `dim_item`. Roots: a kernel with weight,
    tensors written (the first `root_writes`) and read, each a part of `root_whole` in memory, the
    reductions of what a product of it makes (`beside_tensor` what each may read), `root_copied`
    tensors copied to another memory layout or buffer, or back, `spread_tensor` buffers of which a
    part along `spread_item` is updated, and contractions (`dot_unit`, what it makes in `dot_sums`,
    seconds of the whole on one device; by factor the side, `flops.BATCH` and others, and the size;
    of a TPU's convolutions `dot_window` as in `windows`; of operands `dot_operand`, `dot_width` and
    `dot_computed`, whether arithmetic inside makes them).
    Partials: an op whose reduction items may be sharded, and the (as computed, as defined) tensor
    of each result, whether it is a product's, a lookup's or a scatter's (`part_segments`), the row
    that they are added to before that, `part_cut` the tensor that slices of them are cut of (or
    -1), `part_together` the loop, of `loop_runs`, in which they are sent with others (or -1;
    `together` are the results of which that is so), `part_passes` over what is made of them once
    they are added up, `part_batch` dimensions of a batch, `part_behind` runs of a loop behind which
    they may be summed, in elements that are `part_widened` times as wide.
    Edges: a value's tensor and those its uses want, whether no kernel makes it (`edge_given`).
    Halos: strips exchanged.
    Memory, between events (positions in the schedule where something begins, `event_position`, the
    last one its end): `base_*` tensors that live throughout (`base_fetched` copies of them to or
    from the chip, each of which takes `on_chip_told` bytes), `live_*` intervals, `copy_*` intervals
    of a value's resharded copies (`kind_*` the layouts of it and of what its uses want;
    `copy_begin` and `copy_end` positions), `sum_*` partial sums of a row of partials, each at one
    event, what they add up to until `sum_to`, `X_count` of what is alike. `on_chip_buffers` bytes
    of what is alive (`X_stay` whether briefly; not what `main` returns) in pieces of up to
    `on_chip_piece` may be on the chip for `on_chip_seconds`, of what collectives read or write
    where `on_chip_sent`. `summed_whole`: the axes over which together nothing is scattered, 0 for
    none; `sums_in_turn`: a sum over several dimensions runs over the axes of the first, then of the
    next, and not in the mesh's order; `narrows`: an f32 that only products read travels in 16 bits
    (`edge_to_narrow` and `copy_narrow`, as in `rows`).
    Floor: the tensors of arguments and results that pass through main memory once, if `floored`.
    Terms are the rows of all of these in one numbering (`term_first`, `unit_term`, `unit_tensor`;
    see `dependencies`).
    Axes: `axis_size`; for each set of axes (a bit mask) `axes_shards` devices and, by kind of
    collective, `axes_wire`, `axes_alpha` and `axes_beta` as in `collectives`; `launched`: the
    seconds of the small kernels beside one of a kind.
    """

    item_fixed: Ints
    fixed_start: Ints
    fixed_axis: Ints
    item_shards: Ints
    unit_forbidden: Ints
    item_group: Ints
    item_size: Ints
    item_bit: Ints
    item_side: Ints
    unit_start: Ints
    touch_start: Ints
    touch_unit: Ints
    tensor_itemsize: Floats
    tensor_start: Ints
    dim_size: Ints
    dim_item: Ints
    tensor_image: Ints
    tensor_given: NDArray[np.bool_]
    root_weight: Floats
    root_writes: Ints
    root_tensor_start: Ints
    root_tensor: Ints
    root_whole: Ints
    root_dot_start: Ints
    dot_unit: Ints
    dot_sums: Ints
    dot_seconds: Floats
    dot_operand: Ints
    dot_width: Floats
    dot_computed: Ints
    dot_window: Ints
    root_beside_start: Ints
    beside_start: Ints
    beside_tensor: Ints
    root_copied_start: Ints
    root_copied: Ints
    root_spread_start: Ints
    spread_item: Ints
    spread_tensor: Ints
    side_start: Ints
    side_of: Ints
    side_size: Ints
    tile_rows: int
    tile_columns: int
    in_blocks: float
    crowded: float
    part_weight: Floats
    part_item_start: Ints
    part_item: Ints
    part_result_start: Ints
    part_computed: Ints
    part_defined: Ints
    part_product: Ints
    part_lookup: Ints
    part_segments: Ints
    part_cut: Ints
    part_together: Ints
    loop_runs: Floats
    together: Ints
    together_loop: Ints
    part_before: Ints
    part_passes: Floats
    part_batch: Ints
    part_behind: Floats
    part_widened: Floats
    edge_weight: Floats
    edge_from: Ints
    edge_given: Ints
    edge_to_start: Ints
    edge_to: Ints
    edge_to_trips: Floats
    edge_to_narrow: Ints
    halo_weight: Floats
    halo_item: Ints
    halo_tensor: Ints
    halo_part: Floats
    base_tensor: Ints
    base_count: Floats
    base_fetched: Floats
    live_tensor: Ints
    live_from: Ints
    live_to: Ints
    live_width: Floats
    live_stay: Ints
    live_count: Floats
    live_guard: Ints
    guard_row: Ints
    guard_tensor: Ints
    guard_start: Ints
    guard_kept: Ints
    guard_width: Floats
    sum_row: Ints
    sum_tensor: Ints
    sum_at: Ints
    sum_last: Ints
    sum_to: Ints
    sum_count: Floats
    sum_stay: Ints
    sum_stored: Ints
    kind_source: Ints
    kind_start: Ints
    kind_tensor: Ints
    copy_kind: Ints
    copy_count: Floats
    copy_start: Ints
    copy_tensor: Ints
    copy_from: Ints
    copy_to: Ints
    copy_begin: Ints
    copy_end: Ints
    copy_narrow: Ints
    event_position: Ints
    floor_tensor: Ints
    floor_count: Floats
    term_first: Ints
    unit_term_start: Ints
    unit_term: Ints
    unit_tensor_start: Ints
    unit_tensor: Ints
    summed_whole: int
    sums_in_turn: bool
    narrows: bool
    axis_size: Ints
    axes_shards: Ints
    axes_wire: Floats
    axes_alpha: Floats
    axes_beta: Floats
    bandwidth: float
    element_rate: float
    overhead: float
    launched: Floats
    on_chip: float
    on_chip_buffers: float
    on_chip_piece: float
    on_chip_seconds: float
    on_chip_told: float
    on_chip_sent: bool
    feeding: float
    beside: float
    floored: bool
    turning: float
    rounding: float
    placing: float
    blocking: float


def build_tables(
    analysis: Analysis, mesh: Mesh, device: Device, layouts: Layouts, listing: Listing
) -> Tables:
    """The tables of a program for a mesh of devices; `layouts` are behind their numbers."""
    with collector_paused():
        return _build(analysis, mesh, device, layouts, listing)


def _build(
    analysis: Analysis, mesh: Mesh, device: Device, layouts: Layouts, listing: Listing
) -> Tables:
    policy = policy_of(device)
    columns = (
        _unit_columns(layouts, analysis)
        | _fixed_columns(layouts)
        | _tensor_columns(layouts, images(analysis.program) if policy.around else {})
        | root_columns(listing.roots)
        | partial_columns(listing, policy.around)
        | _edge_columns(listing.edges)
        | _halo_columns(listing.halos)
        | memory_columns(listing.intervals)
        | _floor_columns(listing.floors)
    )
    return Tables(
        **columns,
        **dependency_columns(columns),
        tensor_given=_given(columns) & policy.around,
        **_mesh_columns(mesh, device, columns["item_fixed"]),
        **chip_columns(device),
        floored=True,
    )


def on_mesh(tables: Tables, mesh: Mesh, device: Device) -> Tables:
    """The same tables for another mesh: little of them depends on it."""
    return tables._replace(**_mesh_columns(mesh, device, tables.item_fixed))


def _mesh_columns(mesh: Mesh, device: Device, fixed: Ints) -> dict[str, Any]:
    """All that depends on the mesh; `fixed` are the axes on each item in every state."""
    collectives = collective_tables(mesh, device)
    products = {mask: mesh.shards(mask) for mask in np.unique(fixed).tolist()}
    return {
        "item_shards": ints([products[mask] for mask in fixed.tolist()]),
        "summed_whole": (1 << len(mesh.axes)) - 1 if device.sums_whole else 0,
        "axis_size": ints([axis.size for axis in mesh.axes]),
        "axes_shards": collectives.shards,
        "axes_wire": collectives.wire,
        "axes_alpha": collectives.alpha,
        "axes_beta": collectives.beta,
    }


def set_bits(analysis: Analysis) -> Ints:
    """The bit of each set group within the resolution order of its colour group."""
    seen: Counter[int] = Counter()
    bits = []
    for group in analysis.groups.set_colour.tolist():
        bits.append(seen[group])
        seen[group] += 1
    return ints(bits)


def _unit_columns(layouts: Layouts, analysis: Analysis) -> dict[str, Any]:
    bits = set_bits(analysis)
    items = [item for unit, _ in layouts.units for item in unit]
    touching: list[list[int]] = [[] for _ in range(analysis.groups.colours)]
    for number, (unit, _) in enumerate(layouts.units):
        for group in sorted({item[0] for item in unit if item[0] >= 0}):
            touching[group].append(number)
    return {
        "item_group": ints([item[0] for item in items]),
        "item_size": ints([item[1] for item in items]),
        "item_bit": ints([int(bits[item[2]]) if item[2] >= 0 else -1 for item in items]),
        "item_side": ints([item[3] for item in items]),
        "unit_start": ints(layouts.unit_start),
        "touch_start": starts(touching),
        "touch_unit": flat(touching),
    }


def _fixed_columns(layouts: Layouts) -> dict[str, Any]:
    fixed = [item[4] for unit, _ in layouts.units for item in unit]
    return {
        "item_fixed": ints([sum(1 << axis for axis in axes) for axes in fixed]),
        "fixed_start": starts(fixed),
        "fixed_axis": flat(fixed),
        "unit_forbidden": ints([forbidden for _, forbidden in layouts.units]),
    }


def _tensor_columns(layouts: Layouts, found: dict[Shape, Image]) -> dict[str, Any]:
    dims = [dims for _, dims in layouts.tensors]
    return {
        "tensor_itemsize": floats([size for size, _ in layouts.tensors]),
        "tensor_start": starts(dims),
        "dim_size": flat([[size for size, _ in row] for row in dims]),
        "dim_item": flat([[item for _, item in row] for row in dims]),
        "tensor_image": image_rows(layouts, found),
    }


def _given(columns: dict[str, Any]) -> NDArray[np.bool_]:
    """Tensors that arguments have."""
    given = np.zeros(len(columns["tensor_itemsize"]), dtype=np.bool_)
    given[columns["base_tensor"]] = True
    return given


def _edge_columns(rows: Rows[EdgeRow]) -> dict[str, Any]:
    wanted = [target for row in rows for target in row[1]]
    return {
        "edge_weight": floats(list(rows.values())),
        "edge_from": ints([row[0] for row in rows]),
        "edge_given": ints([row[2] for row in rows]),
        "edge_to_start": starts([row[1] for row in rows]),
        "edge_to": ints([tensor for tensor, _, _ in wanted]),
        "edge_to_trips": floats([trips for _, trips, _ in wanted]),
        "edge_to_narrow": ints([narrow for _, _, narrow in wanted]),
    }


def _floor_columns(rows: Rows[int]) -> dict[str, Any]:
    return {"floor_tensor": ints(list(rows)), "floor_count": floats(list(rows.values()))}


def _halo_columns(rows: Rows[HaloRow]) -> dict[str, Any]:
    return {
        "halo_weight": floats(list(rows.values())),
        "halo_item": ints([item for item, _, _ in rows]),
        "halo_tensor": ints([tensor for _, tensor, _ in rows]),
        "halo_part": floats([part for _, _, part in rows]),
    }
