"""All probes by name."""

from __future__ import annotations

from benchmarks.probes import (
    all_reduce_combiner,
    all_reduce_reassociate,
    bf16_narrowing,
    buffer_assignment,
    convolution_tiling,
    cse,
    deferred_filter_gradients,
    dynamic_update_slice,
    fusion_rates,
    layout_assignment,
    memory_space_assignment,
    reduce_scatter_creator,
    reduction_fusion,
    space_to_batch,
    sum_order,
    while_loop_all_reduce_motion,
)
from benchmarks.probes.probe import Probe

PROBES: dict[str, Probe] = {
    module.PROBE.name: module.PROBE
    for module in (
        all_reduce_combiner,
        all_reduce_reassociate,
        bf16_narrowing,
        buffer_assignment,
        convolution_tiling,
        cse,
        deferred_filter_gradients,
        dynamic_update_slice,
        fusion_rates,
        layout_assignment,
        memory_space_assignment,
        reduce_scatter_creator,
        reduction_fusion,
        space_to_batch,
        sum_order,
        while_loop_all_reduce_motion,
    )
}
