"""The collectives of a compiled module and those of a price, counted so that they compare.

By kind and by mesh axis. XLA for processors partitions a program as XLA for chips does, and writes
some collectives otherwise:

- It makes no reduce-scatter. A sum that is scattered is an all-reduce of which each device cuts its
  part, so both count as sums.
- A collective over several axes is one for each of several dimensions: a sum over two dimensions is
  two all-reduces, what is gathered along two dimensions is gathered twice. So a collective counts
  once for each of its axes.
- Which devices a permute is between, and which of several new axes are gathered before it or behind
  it, goes by the numbers of devices. Where a price has a permute to other axes the axes are left
  out: a permute counts once, and other collectives by the number of their axes. A gather over an
  axis of four may then be two, as of an axis that XLA has split between two dimensions.
- Sums that are ready together are one message of several tensors. Each tensor counts; a price to
  compare with is made without the pass `all_reduce_combiner`. Of an all-to-all the tensors are
  pieces of one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from toast.aot.collectives import find_collectives
from toast.aot.hlo import parse
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import ResolvedPlan

Sent = Counter[tuple[str, str]]
"""How often each kind of collective is sent over each axis."""
SUM = "sum"
NO_AXES = "no product of axes"
_SUMS = {Kind.ALL_REDUCE.name, Kind.REDUCE_SCATTER.name}


def sent_by_compiled(hlo: str, mesh: Mesh, with_axes: bool = True) -> Sent:
    """What a compiled module sends."""
    found = Sent()
    for one in find_collectives(parse(hlo), mesh):
        kind = one.kind.upper()
        times = one.trips if kind == Kind.ALL_TO_ALL.name else one.trips * one.tensors
        for axis in _axes(kind, (NO_AXES,) if one.axes is None else one.axes, with_axes):
            found[_counted(kind), axis] += round(times)
    return found


def sent_by_price(resolved: ResolvedPlan, with_axes: bool = True) -> Sent:
    """What a plan is priced to send."""
    found, mesh = Sent(), resolved.evaluator.mesh
    for one in resolved.collectives:
        names = tuple(mesh.axes[axis].name for axis in one.axes)
        for axis in _axes(one.kind.name, names, with_axes):
            found[_counted(one.kind.name), axis] += round(one.count)
    return found


def split_gathers(resolved: ResolvedPlan) -> Sent:
    """How many more gathers there may be, without their axes, than a plan is priced to send."""
    found, axes = Sent(), resolved.evaluator.mesh.axes
    for one in resolved.collectives:
        if one.kind is Kind.ALL_GATHER:
            halvings = sum(round(math.log2(axes[axis].size)) for axis in one.axes)
            found[one.kind.name, ""] += round(one.count) * (halvings - len(one.axes))
    return found


def _axes(kind: str, names: Sequence[str], with_axes: bool) -> Sequence[str]:
    """For each axis that a collective counts for, its name, or none."""
    if with_axes:
        return names
    return [""] if kind == Kind.COLLECTIVE_PERMUTE.name else [""] * len(names)


def _counted(kind: str) -> str:
    return SUM if kind in _SUMS else kind
