"""Moves of a matrix over three axes: an argument that is returned in another layout."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from benchmarks.probes.reshards import MESH, Layout, T
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.program.pins import Pins
from toast.costmodel.resolved import ResolvedPlan, resolve

AXES = "abc"
TEXT = f"func.func public @main(%x: {T}) -> {T} {{ return %x : {T} }}"
SMALL = TEXT.replace(T, "tensor<8x16xf32>")


def move(have: Layout, want: Layout, device: str, text: str = TEXT) -> ResolvedPlan:
    """The plan that has the argument in one layout and the result in the other."""
    analysis, mesh = analyse(load(text.encode()).program), Mesh.parse(MESH)
    names = [axis.name for axis in mesh.axes]
    before, after = (
        tuple(tuple(names.index(axis) for axis in axes) for axes in layout)
        for layout in (have, want)
    )
    program = analysis.program
    pins = Pins(values={program.arguments[0].value: before}, uses={program.results[0].use: after})
    return resolve(Evaluator(analysis, mesh, find(device), pins), ())


def layouts() -> Iterator[Layout]:
    """All ways to lay a matrix out over the axes."""
    for count in range(len(AXES) + 1):
        for axes in permutations(AXES, count):
            for cut in range(count + 1):
                yield "".join(axes[:cut]), "".join(axes[cut:])


def moves() -> Iterator[tuple[Layout, Layout]]:
    """All moves but for the names of the axes: they are named as they come."""
    found = set()
    for have in layouts():
        for want in layouts():
            order = "".join(dict.fromkeys("".join((*have, *want, AXES))))
            named = str.maketrans(order, AXES)
            found.add(
                (
                    (have[0].translate(named), have[1].translate(named)),
                    (want[0].translate(named), want[1].translate(named)),
                )
            )
    yield from sorted((have, want) for have, want in found if have != want)
