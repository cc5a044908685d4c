"""What laying out one unit or two costs, by the evaluator's own kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats, Ints
from toast.costmodel.state_kernels import (
    COLLECTIVE_PERMUTE,
    NEIGHBOURS,
    collective,
    reshard,
    same,
)

if TYPE_CHECKING:
    from toast.costmodel.tables import Scratch, Tables


@inner
def _lay(t: Tables, s: Scratch, unit: int, masks: Ints, shards: Ints, pick: int) -> None:
    """Put strategy `pick` of a unit into the scratch arrays; `masks` [strategies, items]."""
    first = t.units.start[unit]
    for k in range(t.units.start[unit + 1] - first):
        s.units.mask[first + k] = masks[pick, k]
        s.units.shards[first + k] = shards[pick, k]


@inner
def _move(
    t: Tables, s: Scratch, source: int, target: int, reduced: int, row: int, width: float
) -> float:
    if reduced == 0 and same(t, s, source, target):
        return 0.0
    return reshard(t, s, source, target, reduced, row, width, 1.0)


@entry
def reshards(
    t: Tables,
    s: Scratch,
    tensors: Ints,
    units: Ints,
    masks: tuple[Ints, Ints],
    shards: tuple[Ints, Ints],
    local: Floats,
    reduced: Ints,
    row: int,
    width: float,
    out: Floats,
) -> None:
    """Seconds from the (source, target) `tensors` of two `units`, for all pairs of strategies.

    `local` bytes of the source and `reduced` axes of its partial sums, both [source strategies];
    `row` and `width` as in the evaluator's `reshard`.
    """
    for a in range(len(masks[0])):
        _lay(t, s, units[0], masks[0], shards[0], a)
        s.tensors.local[tensors[0]] = local[a]
        for b in range(len(masks[1])):
            if units[0] != units[1]:
                _lay(t, s, units[1], masks[1], shards[1], b)
            elif a != b:
                continue
            out[a, b] = _move(t, s, tensors[0], tensors[1], reduced[a], row, width)


@entry
def halos(
    t: Tables, s: Scratch, row: int, axes: Ints, shards: Ints, local: Floats, out: Floats
) -> None:
    """Add seconds of one row of the halos; `axes` and `shards` of its item [strategies]."""
    for pick in range(len(axes)):
        if axes[pick] != 0:
            strip = min(t.halos.part[row] * shards[pick], 1.0) * local[pick]
            weight = t.halos.weight[row]
            out[pick] += collective(t, s, COLLECTIVE_PERMUTE, axes[pick], strip, weight, NEIGHBOURS)
