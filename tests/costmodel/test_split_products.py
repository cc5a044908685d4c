"""What is stored between products by passes of its own: parts, what is spread, what is turned."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.split_products import CASES, ELEMENTS
from tests.modules import analysed
from toast.aot.target import CHIPS
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.program.op_traits import Role

PROBE = "split_products"


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3"])
@pytest.mark.parametrize("name", CASES)
def test_passes_of_their_own_are_those_of_the_compiler(name: str, device: str) -> None:
    program = analysed(CASES[name]()).program
    found = fuse(program, profile_of(find(device)))
    reduces = found.flow.role == Role.REDUCE
    passes = [
        value
        for one in found.launched
        if not one.contractions and not reduces[list(one.ops)].any()
        for op in one.ops
        for value in program.values_of(op)
        if found.written[value] and program.elements[value] >= ELEMENTS
    ]
    made = {"argument", "return"}
    passes = [value for value in passes if program.kind(program.value_op[value]) not in made]
    assert len(passes) == golden(PROBE, name, device)["passes"]


SLOW = {
    "pairs": "what relu makes of pairs is summed over both rows in twice the time",
    "turned": "the halves that are joined are stored as well, one of them negated",
}
"""Cases that are farther off, and why."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=SLOW[name])) if name in SLOW else name
        for name in CASES
    ],
)
def test_they_take_their_time(name: str) -> None:
    module = analysed(CASES[name]())
    priced = Evaluator(module, Mesh.parse("all=8"), find("tpu-v5e")).cost(()).compute
    cycles = golden(PROBE, name)["cycles"]
    assert priced * (CHIPS["tpu-v5e"].clock or 0.0) == pytest.approx(cycles, rel=0.25)
