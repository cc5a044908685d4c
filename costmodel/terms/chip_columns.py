"""The figures of a chip and of its compiler that the kernels read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.hardware.devices import Device
from toast.costmodel.passes.dot_strength_reduction import reducing_seconds
from toast.costmodel.passes.dot_tiling import block_elements
from toast.costmodel.passes.fourier_transforms import step_seconds
from toast.costmodel.passes.memory_space_assignment import assign_memory
from toast.costmodel.passes.spmd_partitioner import launched_beside


class ChipColumns(NamedTuple):
    """Figures of a chip and of its compiler that the kernels read.

    A matrix unit's tile of `tile_rows` by `tile_columns`, whose rows fill `column_bytes` at least;
    a product of few rows takes the time of `least_rows`; rows that are more than half padding, and
    have more than `most_padding` bytes of it, lie otherwise; rows are made inside a sum of them
    that takes up to `summed_bytes` with `summed_rows` more; `bandwidth` in bytes, and
    `element_rate` in elements a second; seconds of `overhead` of each fusion, of `product_overhead`
    of a product of what is on the chip, and those of the small fusions `launched` beside one
    collective. `on_chip` bytes keep operands; up to `on_chip_buffers` bytes of what is alive may be
    on the chip for `on_chip_seconds`, with `on_chip_sent` also what collectives read or write. Each
    copy to or from the chip takes `on_chip_table_bytes` of main memory. Few images lie `in_blocks`
    of pixels. `sums_in_turn`: a sum over several dimensions runs over the axes of the first, then
    of the next, and not in the mesh's order. `narrows`: an f32 that only products read travels in
    16 bits. Sums are sent together in messages of up to `combined_bytes`; up to `late_bytes` of
    what the last one sends wait for it. A product reads its operands again for each block of
    `block_elements`, if that is not 0; tensors are streamed from main memory from `streamed_from`
    of `on_chip` on. `feeding`: how much longer it takes to read what feeds a product;
    `each_element`: seconds of an element that is read or written, `each_reduced`: of one where a
    fusion reduces, which is never less; `each_transformed`: of a complex number in a step of a
    Fourier transform; `each_rounded`: of one that is rounded inside a product, or `hands_over`:
    that a convolution makes; elements a second of `blocking`. A program that needs more than
    `memory` bytes is squeezed into these, where values of at least `recomputed_piece` bytes are let
    go of. A matrix is scattered in pieces of which `scattered_piece` gives the bytes (0: of any
    size). A scatter of less than the part `scattered_in_place` of its table, a row to each tile,
    adds in place, and devices keep their sum beside it. `reducing`: seconds for each element that a
    product of one row multiplies and adds up, 0 where the matrix unit does it.
    """

    tile_rows: int
    tile_columns: int
    column_bytes: int
    least_rows: int
    most_padding: float
    summed_bytes: float
    summed_rows: int
    fills_tiles: bool
    in_blocks: bool
    sums_in_turn: bool
    narrows: bool
    bandwidth: float
    element_rate: float
    overhead: float
    product_overhead: float
    launched: float
    on_chip: float
    on_chip_buffers: float
    on_chip_seconds: float
    on_chip_table_bytes: float
    on_chip_sent: bool
    feeding: float
    each_element: float
    each_reduced: float
    each_transformed: float
    each_rounded: float
    hands_over: bool
    blocking: float
    combined_bytes: float
    late_bytes: float
    block_elements: float
    streamed_from: float
    memory: float
    recomputed_piece: float
    scattered_piece: float
    scattered_in_place: float
    reducing: float


def chip_columns(device: Device, profile: CompilerProfile) -> ChipColumns:
    """All that depends on the chip alone: bytes, seconds, and elements and bytes a second."""
    blocks, memory = profile.space_to_batch, profile.memory_space_assignment
    again, combiner = profile.rematerialization, profile.all_reduce_combiner
    scatters = profile.reduce_scatter_creator
    on_chip = assign_memory(device, memory)
    return ChipColumns(
        tile_rows=device.tile[0],
        tile_columns=device.tile[1],
        column_bytes=profile.layout_assignment.column_bytes,
        least_rows=profile.dot_tiling.least_rows,
        most_padding=profile.layout_assignment.most_padding,
        summed_bytes=profile.scatter_fusion.summed_bytes,
        summed_rows=profile.scatter_fusion.summed_rows,
        fills_tiles=profile.layout_assignment.pads_values,
        in_blocks=blocks.convolves_in_blocks,
        sums_in_turn=scatters.sums_by_dimension,
        narrows=profile.bf16_narrowing.narrows_gathers,
        bandwidth=device.bandwidth * device.stream_efficiency,
        element_rate=device.element_rate,
        overhead=device.op_overhead,
        product_overhead=device.op_overhead * profile.dot_tiling.launch,
        launched=launched_beside(device, profile.spmd_partitioner),
        on_chip=on_chip.size,
        on_chip_buffers=on_chip.buffers,
        on_chip_seconds=on_chip.seconds,
        on_chip_table_bytes=on_chip.table,
        on_chip_sent=memory.collectives_on_chip,
        feeding=profile.fusion.operand_cost,
        each_element=profile.fusion.element_cost / device.element_rate,
        each_reduced=max(profile.fusion.reducing_cost, profile.fusion.element_cost)
        / device.element_rate,
        each_transformed=step_seconds(device, profile.fourier_transforms),
        each_rounded=profile.fusion.narrowing_cost / device.element_rate,
        hands_over=profile.convolution_tiling.hands_over,
        blocking=device.element_rate / blocks.blocking_cost,
        combined_bytes=combiner.max_bytes,
        late_bytes=combiner.max_bytes * combiner.updates_late,
        block_elements=block_elements(on_chip, profile.dot_tiling),
        streamed_from=memory.streamed_from,
        memory=float(device.plannable_bytes) if again.recomputes else np.inf,
        recomputed_piece=float(again.least_bytes),
        scattered_piece=scatters.piece_share * memory.scoped_bytes,
        scattered_in_place=profile.scatter_expander.adds_few_in_place / device.tile[0],
        reducing=reducing_seconds(device, profile.dot_strength_reduction),
    )
