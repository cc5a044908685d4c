"""The collectives of a compiled module and those of a price, counted so that they compare.

By kind and by mesh axis. XLA for processors partitions a program as XLA for chips does, and writes
some collectives otherwise:

- It makes no reduce-scatter. A sum that is scattered is an all-reduce of which each device cuts its
  part, so both count as sums.
- A collective over several axes is one for each of several dimensions: a sum over two dimensions is
  two all-reduces, what is gathered along two dimensions is gathered twice. So a collective counts
  once for each of its axes.
- Sums that are ready together are one message of several tensors. Each tensor counts; a price to
  compare with is made without the pass `all_reduce_combiner`. Of an all-to-all the tensors are
  pieces of one.
"""

from __future__ import annotations

from collections import Counter

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


def sent_by_compiled(hlo: str, mesh: Mesh) -> Sent:
    """What a compiled module sends."""
    found = Sent()
    for one in find_collectives(parse(hlo), mesh):
        kind = one.kind.upper()
        times = one.trips if kind == Kind.ALL_TO_ALL.name else one.trips * one.tensors
        for axis in (NO_AXES,) if one.axes is None else one.axes:
            found[_counted(kind), axis] += round(times)
    return found


def sent_by_price(resolved: ResolvedPlan) -> Sent:
    """What a plan is priced to send."""
    found, mesh = Sent(), resolved.evaluator.mesh
    for one in resolved.collectives:
        for axis in one.axes:
            found[_counted(one.kind.name), mesh.axes[axis].name] += round(one.count)
    return found


def _counted(kind: str) -> str:
    return SUM if kind in _SUMS else kind
