"""Updates of a part of a buffer along a dimension that is split over devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toast.analysis.program import Program
from toast.costmodel.compilers.rules import DynamicUpdateSliceRules
from toast.costmodel.program.sharding_units import Layouts

UPDATE_SLICE = "stablehlo.dynamic_update_slice"

Passed = tuple[tuple[int, int], ...]
"""(item, buffer) of each dimension along which a part of a buffer is updated in place."""


def passed_over(
    program: Program, layouts: Layouts, ops: Iterable[int], rules: DynamicUpdateSliceRules
) -> Passed:
    """The dimensions of buffers of which ops write a part, at a place that is not known.

    Where such a dimension is split over devices, only one of them has the place: all pass over
    the whole buffer, and keep what they had.
    """
    return tuple(_passed(program, layouts, ops)) if rules.passes_over_buffer else ()


def _passed(program: Program, layouts: Layouts, ops: Iterable[int]) -> Iterator[tuple[int, int]]:
    for op in ops:
        if program.kind(op) != UPDATE_SLICE:
            continue
        uses, first = program.uses_of(op), layouts.unit_start[layouts.op_unit[op]]
        whole, part = (program.shape(program.sources[use]) for use in uses[:2])
        for dim, name in enumerate(program.use_names(uses[0]).tolist()):
            moves = not program.constant[program.sources[uses[2 + dim]]]
            if name >= 0 and moves and part[dim] < whole[dim]:
                item = first + name - int(program.op_factors[op])
                yield item, int(layouts.use_tensor[uses[0]])
