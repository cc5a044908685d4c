"""The figures of a chip and of its compiler that the kernels read."""

from __future__ import annotations

from typing import Any

from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.collectives import Kind
from toast.costmodel.program.arrays import floats


def chip_columns(device: Device, profile: CompilerProfile) -> dict[str, Any]:
    """All that depends on the chip alone: bytes, seconds, and elements and bytes a second."""
    layout, narrowing = profile.layout_assignment, profile.bf16_narrowing
    blocks, fusion = profile.space_to_batch, profile.fusion
    late = profile.deferred_filter_gradients.fills_memory
    return {
        "tile_rows": device.tile[0],
        "tile_columns": device.tile[1],
        "in_blocks": blocks.stored_copies if blocks.convolves_in_blocks else 0.0,
        "crowded": float(device.usable_bytes) if late else 0.0,
        "sums_in_turn": profile.reduce_scatter_creator.sums_by_dimension,
        "narrows": narrowing.narrows_gathers,
        "places_gathers": layout.places_gathers,
        "bandwidth": device.bandwidth * device.stream_efficiency,
        "element_rate": device.element_rate,
        "overhead": device.op_overhead,
        "launched": floats(
            [
                getattr(profile.launches, f"beside_{kind.name.lower()}") * device.op_overhead
                for kind in Kind
            ]
        ),
        "combined": profile.all_reduce_combiner.max_bytes,
        "feeding": fusion.operand_cost,
        "beside": fusion.epilogue_cost,
        "block_bytes": profile.dot_tiling.block_bytes,
        "resident_share": profile.dot_tiling.resident_share,
        "rounding": device.element_rate * narrowing.rounding_rate,
        "placing": device.element_rate * layout.placing_rate,
        "blocking": device.element_rate / blocks.blocking_cost,
        "turning": layout.copy_rate,
        **_on_chip(device, profile),
    }


def _on_chip(device: Device, profile: CompilerProfile) -> dict[str, Any]:
    """What the compiler does with the memory on the chip."""
    rules = profile.memory_space_assignment
    size = device.on_chip_bytes if rules.assigns else 0
    buffers = rules.buffer_bytes if rules.assigns else 0
    return {
        "on_chip": float(size),
        "on_chip_buffers": float(buffers),
        "on_chip_piece": rules.piece_share * buffers,
        "on_chip_seconds": rules.stay_ratio * size / device.bandwidth,
        "on_chip_told": rules.table_bytes if buffers else 0.0,
        "on_chip_sent": rules.collectives_on_chip,
        "streamed_from": rules.streamed_from,
        "brief_positions": rules.brief_positions,
    }
