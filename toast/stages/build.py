"""Writes one module of a pipeline out of ops of the program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from toast.microbatch.colour import bits_of, shape_of
from toast.microbatch.tree import OpNode
from toast.microbatch.writer import copy_node


def write_module(
    source: ir.Module, nodes: Sequence[OpNode], inputs: Sequence[Any], outputs: Sequence[Any]
) -> ir.Module:
    """A module whose `main` takes the `inputs`, runs the ops, and returns the `outputs`.

    All are values of the `source`, whose context is current.
    """
    with ir.Location.unknown():
        module = ir.Module.create()
        for view in source.body.operations:
            if view.operation.name not in ("func.func", "sdy.mesh"):
                view.operation.clone(ip=ir.InsertionPoint(module.body))
        kind = ir.FunctionType.get([one.type for one in inputs], [one.type for one in outputs])
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", kind, visibility="public")
        block = main.add_entry_block()
        values: dict[Any, Any] = dict(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for node in nodes:
                copy_node(node, values)
            func.ReturnOp([values[value] for value in outputs])
    module.operation.verify()
    return module


def needed(nodes: Sequence[OpNode], wanted: Mapping[Any, object] | set[Any]) -> list[OpNode]:
    """The ops among some, in order, that values are made of."""
    missing = set(wanted)
    found: list[OpNode] = []
    for node in reversed(nodes):
        if not missing.isdisjoint(node.results):
            found.append(node)
            missing.update(node.read)
    return found[::-1]


def bytes_of(value: Any) -> int:
    """The bytes of a tensor."""
    element = ir.RankedTensorType(value.type).element_type
    return math.prod(shape_of(value)) * bits_of(element) // 8
