"""When the gradients of the filters of convolutions are summed over devices.

libtpu goes down the chain of gradients of activations first. The gradient of a filter, for which
nothing of that chain waits, is summed over devices behind it. So one of two things stays until
then: the gradient, whole, or what it is made of, an activation and its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.passes.buffer_assignment import Buffered
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.space_to_batch import CONVOLUTION, filter_gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A gradient: the convolution `op`, when it might run (`at`) and `until` when it is summed.

    `operands` are the buffers that it reads, each with the last position at which it is there
    in any case, where that is before `until`.
    """

    op: int
    at: int
    until: int
    operands: tuple[tuple[int, int], ...]


def waiting_gradients(program: Program, fusion: Fusion, buffers: Buffered) -> list[Wait]:
    """All gradients that wait, in program order.

    What several read stays for the last of them. In a loop none waits, as each iteration ends
    with them.
    """
    if not fusion.profile.deferred_filter_gradients.defers:
        return []
    ends = buffers.ends
    once = fusion.flow.trips == 1.0
    gradients = filter_gradients(program)
    gradients = gradients[once[gradients]]
    others = np.array(sorted(set(program.ops_named(CONVOLUTION)) - set(gradients.tolist())))
    chain = fusion.position[others[once[others]]] if len(others) else others
    if not len(gradients) or not len(chain):
        return []
    end = int(chain.max()) + 1
    found: list[Wait] = []
    taken: set[int] = set()
    for turn, (op, reads) in reversed(list(enumerate(_reads(program, fusion, gradients)))):
        at = int(fusion.position[op])
        until = min(max(end + turn, at), program.ops - 1)
        read = dict.fromkeys(buffers.owner[program.use_value[reads]].tolist())
        kept = [buffer for buffer in read if -1 < ends[buffer] < until and buffer not in taken]
        taken.update(kept)
        operands = tuple((buffer, int(ends[buffer])) for buffer in kept)
        found.append(Wait(op=op, at=at, until=until, operands=operands))
    return found[::-1]


def _reads(program: Program, fusion: Fusion, gradients: Ints) -> list[tuple[int, Ints]]:
    """Each gradient with the uses that the fusion which computes it reads."""
    roots, wanted = fusion.roots, np.zeros(program.ops, dtype=np.bool_)
    wanted[gradients] = True
    inside = wanted[roots.dots]
    where = roots.rows(roots.dot_start)[inside]
    of = dict(zip(roots.dots[inside].tolist(), where.tolist(), strict=True))
    return [
        (op, roots.reads[roots.read_start[of[op]] : roots.read_start[of[op] + 1]])
        for op in gradients.tolist()
        if op in of
    ]
