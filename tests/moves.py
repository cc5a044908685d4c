"""One move of a matrix, as it is priced: an argument that is returned in another layout."""

from __future__ import annotations

from benchmarks.probes.reshards import MESH, Layout, T
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.program.pins import Pins
from toast.costmodel.resolved import ResolvedPlan, resolve

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
