"""Images that are convolved in groups of several channels: a TPU lays the groups apart for that.

Each group fills the columns of its tiles by itself, or the images do, whichever takes less room: 64
channels in 4 groups take the room of 4 times 128. What is convolved is copied to lie so, in 16
bits, and stays for the gradient of the filter. What is made lies so too, and is copied back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from toast.analysis.program import Ints, Program
from toast.analysis.types import itemsize
from toast.costmodel.passes.convolution_groups import group_of, is_grouped
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.layout_assignment import Beside
from toast.costmodel.passes.space_to_batch import (
    CONVOLUTION,
    filter_gradients,
    is_given,
    turned_from,
)
from toast.costmodel.program.lookups import GROUPED, INSTEAD


def kept_in_groups(
    program: Program, fusion: Fusion, launched: Ints
) -> dict[tuple[int, bool], list[Beside]]:
    """Images with their groups apart, by how they lie and whether they can be let go of.

    `launched` is by op when it reads, as in `launched_at`.
    """
    found: dict[tuple[int, bool], list[Beside]] = defaultdict(list)
    if fusion.profile.layout_assignment.parts_groups:
        roots, at = fusion.roots, launched.copy()
        at[roots.dots] = launched[roots.ops[roots.rows(roots.dot_start)]]
        for how, again, one in _kept(program, at):
            if fusion.profile.rematerialization.recomputes or not again:
                found[how, again].append(one)
    return found


def _kept(program: Program, at: Ints) -> Iterator[tuple[int, bool, Beside]]:
    """Images beside what they were copied from, which is not kept if it is no argument.

    Or it is kept, and copied again for the gradient of the filter.
    """
    gradients = filter_gradients(program).tolist()
    last: dict[int, int] = {}
    for op in gradients:
        for use in program.uses_of(op)[:2]:
            value = int(program.sources[use])
            last[value] = max(last.get(value, 0), int(at[op]))
    for op in sorted({*program.ops_named(CONVOLUTION)} - {*gradients}):
        if is_grouped(program, op) and group_of(program, op).read > 1:
            image, made = int(program.sources[program.uses_of(op)[0]]), program.values_of(op)[0]
            begin, width = int(at[op]), min(1.0, 2.0 / itemsize(program.dtype(image)))
            end = last.get(image, begin)
            given = is_given(program, turned_from(program, image))
            how = GROUPED if given else INSTEAD
            yield GROUPED, False, (image, (begin, begin), width)
            yield GROUPED, False, (made, (begin, begin), 1.0)
            if end > begin:
                yield how, False, (image, (begin + 1, end), width)
            if end > begin + 1:
                yield how, True, (image, (begin + 1, end - 1), width)
