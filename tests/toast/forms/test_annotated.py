"""The annotated form: without what it adds, the module is the one that came in."""

from __future__ import annotations

import re

import pytest

from tests.libraries.corpus import SET_GROUPS, kept
from tests.toast.forms.stripped import stripped
from tests.toast.planned import gemma_text, request
from toast.pipeline.plan_module import make_plan

TWICE = b"""
func.func public @main(%x: tensor<8x16xf32>, %y: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %a = call @both(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %b = call @both(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = stablehlo.dot_general %b, %y, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
func.func private @both(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %a = call @one(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %b = call @one(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %b : tensor<8x16xf32>
}
func.func private @one(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %a = stablehlo.tanh %x : tensor<8x16xf32>
  return %a : tensor<8x16xf32>
}
"""
REGION = b"""
module {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
      -> tensor<8x16xf32> {
    %a = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {"model"}]>]
        out_shardings=[<@mesh, [{"data"}, {"model"}]>] manual_axes={"data", "model"}
        (%p: tensor<4x4xf32>) {
      %s = "stablehlo.all_reduce"(%p) <{
          replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          use_global_device_ids}> ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %t = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %t : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      sdy.return %s : tensor<4x4xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %b = sdy.sharding_constraint %a <@mesh, [{}, {"model"}]> : tensor<8x16xf32>
    %c = stablehlo.tanh %b : tensor<8x16xf32>
    return %c : tensor<8x16xf32>
  }
}
"""


def modules(data: bytes, mesh: str = "data=2,model=4", **changes: object) -> tuple[str, str]:
    """A module and its annotated form, both stripped."""
    made = make_plan(data, request(mesh=mesh, form="annotated", rollouts=100, **changes))
    return stripped(data), stripped(made.module)


@pytest.mark.parametrize("mesh", ["data=2,model=4", "data=8", "x=2,y=2,z=2"])
def test_a_step_in_text_comes_back(mesh: str) -> None:
    before, after = modules(gemma_text(), mesh)
    assert before == after


@pytest.mark.parametrize("name", sorted(SET_GROUPS))
def test_a_module_of_a_library_comes_back(name: str) -> None:
    before, after = modules(kept(name))
    assert before == after


def test_calls_stay() -> None:
    text = make_plan(gemma_text(), request(form="annotated", rollouts=100)).module.decode()
    assert text.count("func.call") + text.count(" call @") == gemma_text().decode().count("call @")


def test_a_function_is_copied_where_its_calls_are_laid_out_otherwise() -> None:
    pins = ("0=data,None", "1=None,model")
    made = make_plan(TWICE, request(form="annotated", rollouts=100, pins=pins, refine=True))
    assert stripped(TWICE) == stripped(made.module)


def test_functions_are_copied_once_for_each_layout() -> None:
    text = make_plan(kept("resnet"), request(form="annotated", rollouts=100)).module
    names = re.findall(r"@(\w+__layout\d+)", stripped_names(text))
    assert names
    assert len(names) == len(set(names))


def stripped_names(data: bytes) -> str:
    """The lines of a module that begin its functions."""
    from toast.analysis.forms import decode

    text = str(decode(data).module)
    return "\n".join(line for line in text.splitlines() if "func.func" in line)


def test_regions_and_constraints_of_the_module_come_back() -> None:
    before, after = (re.sub(r"#?loc.*", "", text) for text in modules(REGION))
    assert before == after
    assert "sdy.manual_computation" in after
