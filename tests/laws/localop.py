"""One op at the sizes of one device, run by StableHLO's own interpreter.

The interpreter is the specification made runnable, and needs no compilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tests.laws.layout import Array

Shape = tuple[int, ...]


def element_type(kind: Any) -> Any:
    """The element type of a tensor type."""
    return ir.RankedTensorType(kind).element_type


def evaluate(module: ir.Module, inputs: Sequence[Array]) -> list[Array]:
    """The results of `main` as the interpreter computes them."""
    with module.context:
        types = _main(module).type.inputs
        given = [_attribute(array, kind) for array, kind in zip(inputs, types, strict=True)]
        return [np.array(result) for result in stablehlo.eval_module(module, given)]


def _main(module: ir.Module) -> Any:
    return next(iter(module.body.operations))


def _attribute(array: Array, kind: Any) -> Any:
    return ir.DenseElementsAttr.get(np.ascontiguousarray(array), type=kind)


def run_local(
    op: Any,
    operands: Sequence[Array],
    results: Sequence[Shape],
    changes: Mapping[str, Any],
) -> list[Array]:
    """Run a copy of `op` on local operands; `changes` are attributes that mention sizes.

    Raises `ir.MLIRError` when there is no such op at these sizes.
    """
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        types = [
            ir.RankedTensorType.get(array.shape, element_type(value.type))
            for array, value in zip(operands, op.operands, strict=True)
        ]
        outputs = [
            ir.RankedTensorType.get(shape, element_type(value.type))
            for shape, value in zip(results, op.results, strict=True)
        ]
        _fill(module, op, types, outputs, changes)
        module.operation.verify()
        return evaluate(module, operands)


def _fill(
    module: ir.Module, op: Any, types: list[Any], outputs: list[Any], changes: Mapping[str, Any]
) -> None:
    function = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get("main"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, outputs)),
        },
        regions=1,
        ip=ir.InsertionPoint(module.body),
    )
    block = function.regions[0].blocks.append(*types)
    copy = op.clone(ip=ir.InsertionPoint(block)).operation
    for index, argument in enumerate(block.arguments):
        copy.operands[index] = argument
    for result, kind in zip(copy.results, outputs, strict=True):
        result.set_type(kind)
    for name, value in changes.items():
        copy.attributes[name] = value
    ir.Operation.create("func.return", operands=list(copy.results), ip=ir.InsertionPoint(block))
