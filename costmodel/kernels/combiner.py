"""Kernels for sums that are sent together; `together` says which may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.axis_order import duration
from toast.costmodel.kernels.journal import (
    COMBINED,
    COUNT,
    DETAIL,
    KIND,
    PARTIAL,
    ROW,
    SECONDS,
    TABLE,
)
from toast.costmodel.network.collectives import Kind

MESSAGE_BYTES = 2.0**27
"""Bytes that XLA combines at most, about: of the programs that were compiled for a TPU none sends
more than 120 MiB together, of those for a GPU some send 216."""
ALL_REDUCE, REDUCE_SCATTER = int(Kind.ALL_REDUCE), int(Kind.REDUCE_SCATTER)
SCATTERED, WHOLE = range(2)
"""The two sums that a result may need: what is scattered, and over the other axes what is not."""
MANY, BYTES, SPENT = range(3)
"""How many sums a group has in a run of its loop, their bytes on a device, and their seconds each
for itself."""


@inner
def remember_sum(t: Any, s: Any, row: int, result: int, side: int, axes: int, size: float) -> None:
    """Keep over which axes a result of a row is summed in a run of its loop, and what that takes.

    `size` bytes of one sum on a device.
    """
    s.sum_axes[result, side] = axes
    if axes:
        many = t.part_weight[row] / t.loop_runs[t.part_together[row]]
        s.sum_cost[result, side, MANY] = many
        s.sum_cost[result, side, BYTES] = many * size
        s.sum_cost[result, side, SPENT] = many * duration(t, _kind(side), axes, size)


@inner
def _kind(side: int) -> int:
    return REDUCE_SCATTER if side == SCATTERED else ALL_REDUCE


@inner
def _gather(t: Any, s: Any) -> None:
    """Fill the groups: sums of one kind over the same axes in a run of one loop."""
    for n in range(len(t.together)):
        k, loop = t.together[n], t.together_loop[n]
        for side in range(2):
            axes = s.sum_axes[k, side]
            if not axes:
                continue
            many, size = s.sum_cost[k, side, MANY], s.sum_cost[k, side, BYTES]
            alone = s.sum_cost[k, side, SPENT]
            to = side
            if side == SCATTERED and s.cut_whole[k]:
                to, alone = WHOLE, many * duration(t, ALL_REDUCE, axes, size / many)
            s.joint[loop, to, axes, MANY] += many
            s.joint[loop, to, axes, BYTES] += size
            s.joint[loop, to, axes, SPENT] += alone


@inner
def _write(t: Any, s: Any, loop: int, side: int, axes: int, sent: float, part: float) -> None:
    """Write to the journal that each sum of a group is a part of what is `sent`."""
    for n in range(min(s.noted[0], len(s.journal))):
        if s.journal[n, TABLE] != PARTIAL or t.part_together[int(s.journal[n, ROW])] != loop:
            continue
        if s.journal[n, KIND] == _kind(side) and s.journal[n, DETAIL] == axes:
            s.journal[n, COUNT] *= sent / s.joint[loop, side, axes, MANY]
            s.journal[n, SECONDS] *= part
            s.journal[n, COMBINED] = 1


@inner
def spared(t: Any, s: Any) -> float:
    """Seconds that sums take less because they are sent together.

    After `summed_whole`, which says what is not scattered in the end.
    """
    found = 0.0
    _clear(s)
    _gather(t, s)
    for loop in range(s.joint.shape[0]):
        for side in range(2):
            for axes in range(s.joint.shape[2]):
                many, alone = s.joint[loop, side, axes, MANY], s.joint[loop, side, axes, SPENT]
                if many <= 1.0:
                    continue
                size = s.joint[loop, side, axes, BYTES]
                sent = min(many, max(1.0, np.ceil(size / MESSAGE_BYTES)))
                joint = sent * duration(t, _kind(side), axes, size / sent)
                if joint < alone:
                    found += t.loop_runs[loop] * (alone - joint)
                    _write(t, s, loop, side, axes, sent, joint / alone)
    return found


@inner
def _clear(s: Any) -> None:
    for loop in range(s.joint.shape[0]):
        for side in range(2):
            for axes in range(s.joint.shape[2]):
                for column in range(3):
                    s.joint[loop, side, axes, column] = 0.0
