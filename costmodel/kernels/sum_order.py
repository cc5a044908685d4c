"""Kernels for sums over several axes: in which order they run, and what the module says of them.

Where the orders of a result and of its sums differ, one in the mesh's order is all-reduced and cut;
another is left to the compiler, which scatters it.

A result that is constrained, before its sums, to the layout that its op makes is summed in one
piece: scattered over all axes of the sums, or summed whole. The compiler scatters more of one that
the module says only the kept layout of. So a result is constrained but where the price has such a
sum: some axes of several, those that come to a dimension which is sharded already, those in an
order that is neither the mesh's nor that of the sums, and the rows of a flattened product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toast.analysis.jit import inner
from toast.costmodel.kernels.axis_order import duration, leads
from toast.costmodel.kernels.incremental import axes_on
from toast.costmodel.kernels.journal import replace_collective
from toast.costmodel.network.collectives import Kind
from toast.costmodel.terms.journal import CollectiveReason

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

ALL_REDUCE, REDUCE_SCATTER = int(Kind.ALL_REDUCE), int(Kind.REDUCE_SCATTER)
SCATTERED, AXIS_ORDER = int(CollectiveReason.SCATTERED), int(CollectiveReason.AXIS_ORDER)
ADDED = int(CollectiveReason.ADDED)


@inner
def added_to(t: Tables, s: Scratch, row: int) -> int:
    """The row whose sums those of a row may be added to before they are summed, or -1."""
    one = t.partial_sums.result_start[row]
    computed, defined = t.partial_sums.computed[one], t.partial_sums.defined[one]
    if s.tensors.local[defined] == s.tensors.local[computed]:
        return int(t.partial_sums.added_to[row])
    return int(t.partial_sums.scattered_with[row])


@inner
def constrain(t: Tables, s: Scratch, row: int, result: int) -> None:
    """Decide of a result whether the module constrains it, unless the order of axes decides that.

    After its reason is known.
    """
    reduced, taken, grown = s.partial_sums.reduced[row], 0, False
    s.reduce_scatters.constrained[result], s.reduce_scatters.ordered[result] = True, False
    if reduced == 0:
        return
    source, target = t.partial_sums.computed[result], t.partial_sums.defined[result]
    a, b = t.tensors.start[source], t.tensors.start[target]
    for d in range(t.tensors.start[source + 1] - a):
        come = axes_on(t, s, b + d) & reduced
        taken |= come
        grown |= come != 0 and axes_on(t, s, a + d) != 0
    whole = taken == reduced and not grown
    s.reduce_scatters.ordered[result] = whole and reduced & (reduced - 1) != 0
    s.reduce_scatters.constrained[result] = bool(t.partial_sums.segments[row]) or (
        not grown and (taken == 0 or (whole and not _scatters_rows(t, s, row, result)))
    )


@inner
def _scatters_rows(t: Tables, s: Scratch, row: int, result: int) -> bool:
    """Whether sums over one axis are scattered over the rows of a flattened product.

    Those over several axes the compiler would scatter block by block while it multiplies.
    """
    rows, reduced = t.partial_sums.flattened[row], s.partial_sums.reduced[row]
    if rows < 0 or reduced == 0 or reduced & (reduced - 1):
        return False
    reason = s.reduce_scatters.reason[result]
    if reason == ADDED:
        reason = s.reduce_scatters.reason[t.partial_sums.result_start[added_to(t, s, row)]]
    kept = t.tensors.start[t.partial_sums.defined[result]] + rows
    return bool(reason == SCATTERED and axes_on(t, s, kept) & reduced)


@inner
def summed_whole(t: Tables, s: Scratch) -> float:
    """Seconds that sums take longer which are not scattered for the order of their axes.

    After `find_orders`.
    """
    spent = 0.0
    for row in range(len(t.partial_sums.weight)):
        for result in range(t.partial_sums.result_start[row], t.partial_sums.result_start[row + 1]):
            whole = False
            if s.reduce_scatters.ordered[result]:
                by_mesh, by_sums = _orders(t, s, row, t.partial_sums.defined[result])
                s.reduce_scatters.constrained[result] = by_mesh or by_sums
                whole = by_mesh and not by_sums and s.reduce_scatters.axes[result] != 0
            if s.reduce_scatters.reason[result] in (SCATTERED, AXIS_ORDER):
                s.reduce_scatters.reason[result] = AXIS_ORDER if whole else SCATTERED
            else:
                whole = False
            s.reduce_scatters.whole[result] = whole
            if whole:
                spent += _sum_whole(t, s, row, result)
    return spent


@inner
def _sum_whole(t: Tables, s: Scratch, row: int, result: int) -> float:
    """Replace a reduce-scatter by an all-reduce; returns the seconds that this takes longer."""
    axes, size = s.reduce_scatters.axes[result], s.reduce_scatters.bytes[result]
    weight, place = t.partial_sums.weight[row], result - t.partial_sums.result_start[row]
    seconds = weight * duration(t, ALL_REDUCE, axes, size)
    wire = weight * size * t.mesh.wire[ALL_REDUCE, axes]
    kinds = (REDUCE_SCATTER, ALL_REDUCE)
    replace_collective(s.journal, row, place, kinds, wire, seconds, AXIS_ORDER)
    return float(seconds - weight * duration(t, REDUCE_SCATTER, axes, size))


@inner
def _orders(t: Tables, s: Scratch, row: int, target: int) -> tuple[bool, bool]:
    """Whether a result has the axes of its sums in the mesh's order, and in that of the sums."""
    by_mesh, by_sums, reduced = True, True, s.partial_sums.reduced[row]
    runs_by_mesh = not t.chip.sums_in_turn and _is_over_several(t, s, row)
    for one in range(len(t.mesh.axis_size)):
        for other in range(one + 1, len(t.mesh.axis_size)):
            if reduced >> one & 1 and reduced >> other & 1:
                first = _leads_on(t, s, target, one, other)
                by_mesh &= first
                by_sums &= first == (runs_by_mesh or _leads_in(t, s, row, one, other))
    return by_mesh, by_sums


@inner
def _leads_on(t: Tables, s: Scratch, tensor: int, one: int, other: int) -> bool:
    """Whether an axis comes before another on the dimensions of a tensor."""
    for d in range(t.tensors.start[tensor], t.tensors.start[tensor + 1]):
        axes = axes_on(t, s, d)
        if axes >> one & 1 and axes >> other & 1:
            return leads(t, s, t.tensors.dim_item[d], one, other)
        if axes >> one & 1 or axes >> other & 1:
            return bool(axes >> one & 1)
    return False


@inner
def _is_over_several(t: Tables, s: Scratch, row: int) -> bool:
    """Whether a row sums over several dimensions that are sharded."""
    sharded = 0
    for k in range(t.partial_sums.item_start[row], t.partial_sums.item_start[row + 1]):
        sharded += 1 if s.units.mask[t.partial_sums.item[k]] else 0
    return sharded > 1


@inner
def _leads_in(t: Tables, s: Scratch, row: int, one: int, other: int) -> bool:
    """Whether a row sums over an axis before another, one dimension after the other."""
    first, second = _place_of(t, s, row, one), _place_of(t, s, row, other)
    if first == second:
        return leads(t, s, t.partial_sums.item[first], one, other)
    return bool(first < second)


@inner
def _place_of(t: Tables, s: Scratch, row: int, axis: int) -> int:
    """The item that a row sums over and that an axis is on."""
    for k in range(t.partial_sums.item_start[row], t.partial_sums.item_start[row + 1]):
        if s.units.mask[t.partial_sums.item[k]] >> axis & 1:
            return k
    return -1
