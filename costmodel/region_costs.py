"""What the regions of `shard_map` cost: each is the program of one device, priced as such.

Axes that a region leaves to the compiler are taken to shard nothing in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toast.analysis.program import Floats, Program, Region, StatedCollective
from toast.analysis.types import itemsize
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.device_groups import axes_of_groups, axes_of_pairs
from toast.costmodel.network.mesh import Axis, Mesh
from toast.costmodel.program.op_traits import COLLECTIVES
from toast.costmodel.terms.journal import KIND, ROOT, SECONDS, SIZE, TABLE, Bound
from toast.costmodel.terms.manual_computations import RegionCollective, RegionCost

ALONE = Mesh(axes=(Axis(name="device", size=1),))
"""The mesh of a program of one device."""

PricedProgram = tuple[float, float, Floats]
"""Seconds of computation, peak bytes and the journal of a program of one device."""


def region_cost(
    region: Region, mesh: Mesh, price: Callable[[Program], PricedProgram]
) -> RegionCost:
    """What one run of a region costs on a device of `mesh`."""
    program = region.program
    seconds, peak, journal = price(program)
    roots = journal[journal[:, TABLE] == ROOT]
    by_bound = [float(roots[roots[:, KIND] == bound, SECONDS].sum()) for bound in Bound]
    arguments = sum(_bytes(program, one.value) for one in program.arguments)
    results = [program.sources[one.use] for one in program.results]
    returned = sum(_bytes(program, value) for value in results)
    return RegionCost(
        seconds=seconds,
        moved=float(roots[:, SIZE].sum()),
        bound=Bound(int(np.argmax(by_bound))),
        scratch=max(0.0, peak - arguments - returned),
        given=_bytes(program, results[0]) if results else 0.0,
        collectives=tuple(
            found for one in region.collectives if (found := _collective(program, one, mesh))
        ),
    )


def _collective(program: Program, one: StatedCollective, mesh: Mesh) -> RegionCollective | None:
    """A collective of a region; None for what runs on one device or is no collective we know."""
    kind = COLLECTIVES.get(program.kind(one.op))
    if kind is None or not one.groups or max(map(len, one.groups)) < 2:
        return None
    names = [axis.name for axis in mesh.axes]
    if one.paired:
        over = axes_of_pairs(tuple((first, second) for first, second in one.groups), mesh)
    else:
        over = axes_of_groups(one.groups, mesh) or tuple(names)
    given = sum(_bytes(program, program.sources[use]) for use in program.uses_of(one.op))
    made = sum(_bytes(program, value) for value in program.values_of(one.op))
    return RegionCollective(
        kind=Kind[kind],
        axes=sum(1 << names.index(name) for name in over),
        size=max(given, made),
        runs=float(program.op_trips[one.op]),
    )


def _bytes(program: Program, value: int) -> float:
    return program.elements[value] * itemsize(program.dtype(value))
