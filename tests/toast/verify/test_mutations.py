"""A plan that is wrong is found: what a module computes or how it is laid out is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from benchmarks.proof.cases import write_plan
from tests.toast.samples import SHARDED, write_plan_directory
from tests.toast.verify.plans import module_of
from toast.analysis.errors import InvalidRequest, UnsupportedModule
from toast.analysis.forms import Form, decode, encode
from toast.analysis.operations import operations_within
from toast.verify.verification import verify

MESH = "data=2,model=2"
SMALL = 20 << 10
"""Memory in which the perceptron only fits sharded."""
Mutation = Callable[[ir.Module], None]


def shape_of(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def part(value: Any, dim: int, start: int, stop: int) -> Any:
    """The elements from `start` to `stop` along a dimension."""
    limits = shape_of(value)
    starts = [0] * len(limits)
    starts[dim], limits[dim] = start, stop
    return stablehlo.slice(value, starts, limits, [1] * len(starts))


def products(module: ir.Module) -> list[tuple[Any, int, int]]:
    """The products, each with its longest dimension that is added up, on both sides."""
    found = []
    for op in operations_within(module.operation):
        if op.name == "stablehlo.dot_general":
            numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
            shape = shape_of(op.operands[0])
            pairs = zip(
                numbers.lhs_contracting_dimensions,
                numbers.rhs_contracting_dimensions,
                strict=True,
            )
            left, right = max(pairs, key=lambda pair: shape[pair[0]], default=(-1, -1))
            if left >= 0 and shape[left] > 1:
                found.append((op, left, right))
    return found


def leave_a_partial_sum_out(module: ir.Module) -> None:
    """The product that adds up most is made of the first half, as if nothing was reduced."""
    op, left, right = max(
        products(module), key=lambda found: shape_of(found[0].operands[0])[found[1]]
    )
    half = shape_of(op.operands[0])[left] // 2
    with ir.InsertionPoint(op):
        op.operands[0] = part(op.operands[0], left, 0, half)
        op.operands[1] = part(op.operands[1], right, 0, half)


def leave_a_sum_out(module: ir.Module) -> None:
    """The last reduction that adds up adds half of it."""
    for op in reversed(list(operations_within(module.operation))):
        body = [view.operation.name for r in op.regions for b in r.blocks for view in b.operations]
        if op.name == "stablehlo.reduce" and body[0] == "stablehlo.add" and len(op.results) == 1:
            shape = shape_of(op.operands[0])
            dim = max((int(d) for d in op.attributes["dimensions"]), key=shape.__getitem__)
            if shape[dim] > 1:
                with ir.InsertionPoint(op):
                    op.operands[0] = part(op.operands[0], dim, 0, shape[dim] // 2)
                return
    raise AssertionError("nothing is added up")


def shift_a_shard(module: ir.Module) -> None:
    """One side of the first product is put together in the wrong order."""
    op, left, _ = products(module)[0]
    value = op.operands[0]
    size = shape_of(value)[left]
    with ir.InsertionPoint(op):
        halves = [part(value, left, size // 2, size), part(value, left, 0, size // 2)]
        op.operands[0] = stablehlo.concatenate(halves, left)


def mutated(directory: Path, mutation: Mutation) -> Path:
    """Change the sharded module of a directory."""
    path = directory / "sharded.mlirbc"
    module = decode(path.read_bytes()).module
    with module.context, ir.Location.unknown():
        mutation(module)
        module.operation.verify()
    path.write_bytes(encode(Form.BYTECODE, module))
    return directory


MUTATIONS: list[Mutation] = [leave_a_partial_sum_out, leave_a_sum_out, shift_a_shard]
MODELS = ["t2b", "gns", "itx", "gpt", "gat", "wideresnet"]


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_module_that_computes_something_else_is_found(mutation: Mutation, tmp_path: Path) -> None:
    write_plan(module_of("mlp"), tmp_path, MESH, memory=SMALL)
    assert verify(mutated(tmp_path, mutation)).verdict == "differs"


@pytest.mark.parametrize("layout", ['[{"model"}, {}]', '[{}, {"data"}]'])
def test_a_module_with_another_layout_than_its_plan_is_found(tmp_path: Path, layout: str) -> None:
    """The shards of an argument are as large as they should be, or not even that."""
    wrong = SHARDED.replace('[{"data"}, {}]', layout)
    assert wrong != SHARDED
    directory = write_plan_directory(tmp_path, sharded=wrong)
    assert verify(directory).verdict == "differs"


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_it_is_found_in_every_model(name: str, mutation: Mutation, tmp_path: Path) -> None:
    write_plan(module_of(name), tmp_path, MESH)
    found = verify(mutated(tmp_path, mutation), scale=True, deadline_s=None)
    assert found.verdict == "differs"


def leave_an_all_reduce_out(module: ir.Module) -> None:
    """What goes into the first all-reduce is taken for what comes out."""
    op = next(op for op in operations_within(module.operation) if op.name.endswith(".all_reduce"))
    op.results[0].replace_all_uses_with(op.operands[0])
    op.erase()


def said(folder: Path) -> str:
    """Why a written plan cannot be run; nothing where it can."""
    try:
        verify(folder)
    except UnsupportedModule as error:
        return error.message
    return ""


@pytest.mark.parametrize("form", ["collectives", "local"])
def test_a_collective_that_is_left_out_is_found(form: str, tmp_path: Path) -> None:
    write_plan(module_of("mlp"), tmp_path, MESH, memory=SMALL, form=form)
    assert verify(tmp_path).verdict == "equal"
    folder = mutated(tmp_path, leave_an_all_reduce_out)
    assert "should hold the same" in said(folder) or verify(folder).verdict == "differs"


def test_explicit_collectives_are_scaled_down_too(tmp_path: Path) -> None:
    write_plan(module_of("mlp"), tmp_path, MESH, memory=SMALL, form="collectives")
    found = verify(tmp_path, scale=True)
    assert found.verdict == "equal"
    assert found.scaled


def test_the_program_of_one_device_is_not_scaled_down(tmp_path: Path) -> None:
    write_plan(module_of("mlp"), tmp_path, MESH, memory=SMALL, form="local")
    with pytest.raises(InvalidRequest, match="local cannot be scaled down"):
        verify(tmp_path, scale=True)
