"""Layouts as attributes: MLIR takes those that fit their tensors and the mesh, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from jaxlib.mlir import ir

from tests.modules import text
from tests.toast.planned import gemma_text, request
from toast.analysis.forms import decode, new_context
from toast.costmodel.network.mesh import Mesh
from toast.emit.shardy import Shardings, verify
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Spec

MESH = Mesh.parse("data=2,model=4")


def verified(*given: tuple[str, Spec]) -> None:
    """Verify layouts of tensors of these types."""
    with new_context(), ir.Location.unknown():
        shardings = Shardings()
        verify(MESH, [(ir.Type.parse(name), shardings.of(spec)) for name, spec in given])


def test_layouts_that_fit_are_taken() -> None:
    verified(
        ("tensor<8x16xf32>", [["data"], ["model"]]),
        ("tensor<8x16xf32>", [["model", "data"], []]),
        ("tensor<i32>", []),
    )


def test_a_module_without_arguments_and_results_has_no_layouts() -> None:
    verified()
    module = b"module { func.func public @main() { return } }"
    plan = make_plan(module, request(rollouts=10)).plan
    assert (plan.arguments, plan.results, plan.constraints) == ([], [], [])


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("tensor<8x16xf32>", [["data"]]),
        ("tensor<8x16xf32>", [["expert"], []]),
        ("tensor<8x16xf32>", [["data"], ["data"]]),
        ("tensor<f32>", [["data"]]),
    ],
    ids=["too few dimensions", "an axis of no mesh", "an axis twice", "a scalar"],
)
def test_a_layout_that_does_not_fit_is_refused_among_others_that_do(name: str, spec: Spec) -> None:
    with pytest.raises(ir.MLIRError):
        verified(("tensor<8x16xf32>", [["data"], []]), (name, spec))


def test_equal_layouts_have_one_attribute() -> None:
    with new_context(), ir.Location.unknown():
        shardings = Shardings()
        assert shardings.of([["data"], []]) is shardings.of([["data"], []])
        assert shardings.of([["data"], []]) is not shardings.of([[], ["data"]])


@pytest.mark.parametrize("data", [gemma_text, lambda: text("mlp")], ids=["gemma", "mlp"])
def test_a_written_module_verifies_as_a_whole(data: Callable[[], bytes]) -> None:
    made = make_plan(data(), request(rollouts=200))
    assert made.plan.constraints or made.plan.decisions
    written = decode(made.module).module
    assert b"sdy.sharding" in written.operation.get_asm(binary=True)
    assert written.operation.verify()
