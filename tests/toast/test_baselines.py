"""Reference layouts: data parallelism, and FSDP on top of it."""

from __future__ import annotations

from functools import cache

from tests.toast.planned import gemma_text
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.plans.baselines import data_parallel, fully_sharded

FORWARD = b"""
func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
"""


@cache
def evaluator() -> Evaluator:
    analysis = analyse(load(gemma_text()).program)
    return Evaluator(analysis, Mesh.parse("data=2,model=4"), find("tpu-v5e"))


def test_fsdp_splits_the_batch_as_data_parallelism_and_the_parameters_too() -> None:
    plain, sharded = data_parallel(evaluator()), fully_sharded(evaluator())
    assert sharded[: len(plain)] == plain
    specs = Specs(resolve(evaluator(), sharded))
    program = evaluator().analysis.program
    layouts = {one.name: specs.value(one.value) for one in program.arguments}
    assert layouts["batch['tokens']"][0] == ["data", "model"]
    large = [name for name in layouts if name.endswith(("['gate']", "['up']", "['embedding']"))]
    assert large
    assert all(["data", "model"] in layouts[name] for name in large)


def test_fsdp_needs_less_memory_than_data_parallelism_and_sends_more() -> None:
    plain = evaluator().cost(data_parallel(evaluator()))
    sharded = evaluator().cost(fully_sharded(evaluator()))
    assert sharded.peak < plain.peak
    assert sharded.communication > plain.communication


def test_a_program_without_a_batch_has_neither() -> None:
    found = Evaluator(analyse(load(FORWARD).program), Mesh.parse("data=2,model=4"), find("tpu-v5e"))
    assert (data_parallel(found), fully_sharded(found)) == ((), ())
