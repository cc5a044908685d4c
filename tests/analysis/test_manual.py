"""Regions of `shard_map` are taken out of a module, and put back where they were."""

from __future__ import annotations

import pytest

from tests.analysis.op_modules_special import MANUAL
from toast.analysis.errors import InvalidMesh
from toast.analysis.forms import decode
from toast.analysis.load import load
from toast.analysis.rules import REGION
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest

CALLED = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func public @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = func.call @outer(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = func.call @outer(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
func.func private @outer(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y", ?}]>]
    out_shardings=[<@mesh, [{"x"}, {"y", ?}]>] manual_axes={"x", "y"} (%b: tensor<4x4xf32>) {
    %s = func.call @inner(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %s : tensor<4x4xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
func.func private @inner(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = func.call @innermost(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}
func.func private @innermost(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = stablehlo.sine %a : tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}
"""


def test_a_region_is_one_op_with_a_rule() -> None:
    program = load(MANUAL.encode()).program
    kinds = [program.kind(op) for op in range(program.ops)]
    assert sum(kind.startswith(REGION) for kind in kinds) == 1
    assert "stablehlo.sine" not in kinds
    assert program.no_rule == {}


@pytest.mark.parametrize(("text", "mesh", "regions"), [(MANUAL, "x=2", 1), (CALLED, "x=2,y=4", 2)])
def test_regions_are_written_back(text: str, mesh: str, regions: int) -> None:
    result = make_plan(text.encode(), PlanRequest(mesh=mesh, device="cpu", rollouts=20, threads=1))
    written = result.module.decode()
    assert written.count("sdy.manual_computation") == written.count("stablehlo.sine") == regions
    assert REGION.removeprefix("custom_call ") not in written
    assert decode(result.module).module.operation.verify()
    assert "kept whole" in result.plan.warnings[0]


def test_what_goes_into_a_region_is_laid_out_for_it() -> None:
    request = PlanRequest(mesh="x=2,y=4", device="cpu", rollouts=200, threads=1)
    plan = make_plan(CALLED.encode(), request).plan
    assert plan.collectives == []
    assert plan.arguments[0].spec == plan.results[0].spec == [["x"], ["y"]]


@pytest.mark.parametrize("mesh", ["x=4", "y=2", "x=2,y=2"])
def test_a_region_is_refused_on_another_mesh(mesh: str) -> None:
    with pytest.raises(InvalidMesh, match="shard_map over the mesh x=2") as caught:
        make_plan(MANUAL.encode(), PlanRequest(mesh=mesh, device="cpu", rollouts=20, threads=1))
    assert "x=2" in caught.value.hint
