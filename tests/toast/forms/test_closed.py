"""The closed form leaves nothing to Shardy's propagation."""

from __future__ import annotations

from typing import Any

import pytest
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from tests.libraries.corpus import kept
from tests.toast.planned import gemma_text, request
from toast.analysis.forms import decode
from toast.pipeline.plan_module import make_plan

PROPAGATE = "builtin.module(sdy-basic-propagate)"


def closed(data: bytes, mesh: str) -> ir.Module:
    """The closed form of a module."""
    return decode(make_plan(data, request(form="closed", mesh=mesh, rollouts=100)).module).module


def values_without(module: ir.Module) -> list[str]:
    """The ops whose results have no sharding; those inside of reducers compute no tensors."""
    found: list[str] = []

    def visit(op: Any) -> ir.WalkResult:
        if op.name in ("stablehlo.reduce", "stablehlo.scatter", "stablehlo.sort"):
            inside = ir.WalkResult.SKIP
        else:
            inside = ir.WalkResult.ADVANCE
        told = "sdy.sharding" in op.attributes or op.name == "sdy.sharding_constraint"
        if list(op.results) and not told:
            found.append(op.name)
        return inside

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


@pytest.mark.parametrize("mesh", ["data=2,model=4", "x=2,y=2,z=2"])
def test_every_value_is_annotated(mesh: str) -> None:
    assert values_without(closed(gemma_text(), mesh)) == []


@pytest.mark.parametrize("name", ["bert", "nnx_transformer"])
def test_every_value_of_a_module_of_a_library_is_annotated(name: str) -> None:
    assert values_without(closed(kept(name), "data=2,model=4")) == []


def test_propagation_changes_nothing() -> None:
    module = closed(gemma_text(), "data=2,model=4")
    with module.context:
        before = str(module)
        PassManager.parse(PROPAGATE).run(module.operation)
        assert str(module) == before


def test_propagation_would_change_what_is_annotated_only_where_decided() -> None:
    module = decode(make_plan(gemma_text(), request(rollouts=100)).module).module
    with module.context:
        before = str(module)
        PassManager.parse(PROPAGATE).run(module.operation)
        assert str(module) != before
