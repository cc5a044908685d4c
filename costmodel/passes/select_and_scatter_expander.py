"""What is kept from a max pooling for its gradient, `select_and_scatter`."""

from __future__ import annotations

from toast.analysis.program import Program
from toast.analysis.types import itemsize
from toast.costmodel.passes.fusion import Fusion

PAD, GRADIENT = "stablehlo.pad", "stablehlo.select_and_scatter"

Beside = tuple[int, tuple[int, int], float]
"""A value, (first, last) position and how many of its size are held besides."""


def kept_for_pooling(program: Program, fusion: Fusion) -> list[Beside]:
    """What is held from the forward pass on until each gradient of a max pooling.

    XLA for GPUs finds the places of the largest elements in the forward pass: their indices, one
    integer for each dimension, live from there on, and so does what was pooled, in several memory
    layouts. libtpu keeps what was pooled once more where it has padding.
    """
    rules = fusion.profile.select_and_scatter_expander
    found: list[Beside] = []
    pooling = program.ops_named(GRADIENT)
    reads = {root.op: root.reads for root in fusion.roots} if pooling else {}
    for op in pooling:
        pooled, source = (program.sources[use] for use in program.uses_of(op)[:2])
        sources = [program.sources[use] for use in reads.get(program.makers[pooled], ())]
        ready = [int(fusion.position[program.value_op[value]]) for value in sources]
        end = int(fusion.position[op])
        span = (max(ready, default=end), end)
        width = rules.index_bytes / itemsize(program.dtype(source))
        if rules.keeps_padded and program.kind(program.makers[pooled]) == PAD:
            found.append((pooled, span, 1.0))
        if rules.keeps_places:
            found += [
                (pooled, span, rules.pooled_layouts),
                (source, span, len(program.shape(source)) * width),
            ]
    return found
