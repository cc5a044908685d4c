"""Kernels for sums that are sent together; `all_reduce_combiner` says which may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.axis_order import duration
from toast.costmodel.network.collectives import Kind
from toast.costmodel.terms.journal import (
    COMBINED,
    COUNT,
    DETAIL,
    KIND,
    PARTIAL,
    ROW,
    SECONDS,
    TABLE,
)

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

ALL_REDUCE, REDUCE_SCATTER = int(Kind.ALL_REDUCE), int(Kind.REDUCE_SCATTER)
SCATTERED, WHOLE = range(2)
"""The two sums that a result may need: what is scattered, and over the other axes what is not."""
MANY, BYTES, SPENT, LATE_MANY, LATE_BYTES = range(5)
"""How many sums a group has in a run of its loop, their bytes on a device, and the seconds that
they take one by one. How many of them are small enough to be sent with others, and their bytes."""


@inner
def remember_sum(
    t: Tables, s: Scratch, row: int, result: int, side: int, axes: int, size: float
) -> None:
    """Keep over which axes a result of a row is summed in a run of its loop, and what that takes.

    `size` bytes of one sum on a device.
    """
    s.combiner.axes[result, side] = axes
    if axes:
        many = (
            t.partial_sums.weight[row] / t.partial_sums.loop_runs[t.partial_sums.combined_in[row]]
        )
        s.combiner.cost[result, side, MANY] = many
        s.combiner.cost[result, side, BYTES] = many * size
        s.combiner.cost[result, side, SPENT] = many * duration(t, _kind(side), axes, size)


@inner
def _kind(side: int) -> int:
    return REDUCE_SCATTER if side == SCATTERED else ALL_REDUCE


@inner
def _gather(t: Tables, s: Scratch) -> None:
    """Fill the groups: sums of one kind over the same axes in a run of one loop, or at one moment.

    What is scattered while products wait for it is sent by itself.
    """
    for n in range(len(t.partial_sums.combined)):
        k, loop = t.partial_sums.combined[n], t.partial_sums.combined_loop[n]
        for side in range(2):
            axes = s.combiner.axes[k, side]
            if not axes:
                continue
            many, size = s.combiner.cost[k, side, MANY], s.combiner.cost[k, side, BYTES]
            alone = s.combiner.cost[k, side, SPENT]
            to = side
            if side == SCATTERED and s.reduce_scatters.whole[k]:
                to, alone = WHOLE, many * duration(t, ALL_REDUCE, axes, size / many)
            if to == SCATTERED and loop >= t.partial_sums.loops:
                continue
            s.combiner.joint[loop, to, axes, MANY] += many
            s.combiner.joint[loop, to, axes, BYTES] += size
            if 2.0 * size < many * t.chip.late_bytes:
                s.combiner.joint[loop, to, axes, LATE_MANY] += many
                s.combiner.joint[loop, to, axes, LATE_BYTES] += size
            s.combiner.joint[loop, to, axes, SPENT] += alone


@inner
def _write(
    t: Tables, s: Scratch, loop: int, side: int, axes: int, sent: float, part: float
) -> None:
    """Write to the journal that each sum of a group is a part of what is `sent`."""
    for n in range(min(s.journal.noted[0], len(s.journal.entries))):
        if (
            s.journal.entries[n, TABLE] != PARTIAL
            or t.partial_sums.combined_in[int(s.journal.entries[n, ROW])] != loop
        ):
            continue
        if s.journal.entries[n, KIND] == _kind(side) and s.journal.entries[n, DETAIL] == axes:
            s.journal.entries[n, COUNT] *= sent / s.combiner.joint[loop, side, axes, MANY]
            s.journal.entries[n, SECONDS] *= part
            s.journal.entries[n, COMBINED] = 1


@inner
def spared(t: Tables, s: Scratch) -> float:
    """Seconds that sums take less because they are sent together.

    After `summed_whole`, which says what is not scattered in the end.
    """
    found = 0.0
    _clear(s)
    _gather(t, s)
    for loop in range(s.combiner.joint.shape[0]):
        for side in range(2):
            for axes in range(s.combiner.joint.shape[2]):
                many, alone = (
                    s.combiner.joint[loop, side, axes, MANY],
                    s.combiner.joint[loop, side, axes, SPENT],
                )
                if many <= 1.0:
                    continue
                size = s.combiner.joint[loop, side, axes, BYTES]
                sent = min(many, max(1.0, np.ceil(size / t.chip.combined_bytes)))
                joint = sent * duration(t, _kind(side), axes, size / sent)
                if joint < alone:
                    found += t.partial_sums.loop_runs[loop] * (alone - joint)
                    _write(t, s, loop, side, axes, sent, joint / alone)
    return found


@inner
def _clear(s: Scratch) -> None:
    for loop in range(s.combiner.joint.shape[0]):
        for side in range(2):
            for axes in range(s.combiner.joint.shape[2]):
                for column in range(s.combiner.joint.shape[3]):
                    s.combiner.joint[loop, side, axes, column] = 0.0


@inner
def late_bytes(t: Tables, s: Scratch, result: int) -> float:
    """The bytes of one sum of a result that the last message of the step sends, with others.

    The message is as full as it may be, and each sum that is small enough has its part in it, in
    whole bytes, so that totals stay exact. After `spared`, which fills the groups.
    """
    found = 0.0
    for side in range(2):
        axes = s.combiner.axes[result, side]
        if not axes:
            continue
        group = s.combiner.joint[0, WHOLE if s.reduce_scatters.whole[result] else side, axes]
        size = s.combiner.cost[result, side, BYTES] / s.combiner.cost[result, side, MANY]
        fits = 2.0 * size < t.chip.late_bytes and group[LATE_MANY] > 1.0
        found = np.floor(size * min(1.0, t.chip.late_bytes / group[LATE_BYTES])) if fits else 0.0
    return float(found)
