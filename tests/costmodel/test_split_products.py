"""Products that are split: parts for a batch of products are stored, and all others are not."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.split_products import CASES
from tests.modules import analysed
from toast.aot.target import CHIPS
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import fuse

PROBE = "split_products"


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3"])
@pytest.mark.parametrize("name", CASES)
def test_parts_are_stored_for_whom_the_compiler_stores_them(name: str, device: str) -> None:
    program = analysed(CASES[name]()).program
    found = fuse(program, profile_of(find(device)))
    kinds = [program.kind(one.op) for one in found.launched if not one.contractions]
    assert kinds.count("stablehlo.reshape") == golden(PROBE, name, device)["parts"]


@pytest.mark.parametrize("name", CASES)
def test_parts_take_their_time(name: str) -> None:
    module = analysed(CASES[name]())
    priced = Evaluator(module, Mesh.parse("all=8"), find("tpu-v5e")).cost(()).compute
    cycles = golden(PROBE, name)["cycles"]
    assert priced * (CHIPS["tpu-v5e"].clock or 0.0) == pytest.approx(cycles, rel=0.25)
