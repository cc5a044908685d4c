"""A module without shardings, and without the copies of functions that a plan needs."""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.facts import keys
from toast.analysis.forms import decode

SHARDINGS = ("sdy.sharding", "mhlo.sharding")
COPY = re.compile(r"^(.*)__layout\d+$")


def stripped(data: bytes) -> str:
    """The text of a module without shardings, constraints, and copies of functions.

    Meshes stay only for regions of `shard_map`, which name them.
    """
    module = decode(data).module
    with module.context:
        constraints: list[Any] = []
        regions: list[Any] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "sdy.manual_computation":
                regions.append(op)
                return ir.WalkResult.SKIP
            for name in SHARDINGS:
                if name in op.attributes:
                    del op.attributes[name]
            if _is_constraint(op):
                constraints.append(op)
            for name in ("arg_attrs", "res_attrs"):
                _clean(op, name)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        for op in constraints:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
        for name in ("mhlo.num_partitions", "mhlo.num_replicas"):
            if name in module.operation.attributes:
                del module.operation.attributes[name]
        for op in [view.operation for view in module.body.operations]:
            if op.name == "sdy.mesh" and not regions:
                op.erase()
        return _merged(module)


def _is_constraint(op: ir.Operation) -> bool:
    if op.name == "sdy.sharding_constraint":
        return True
    if op.name != "stablehlo.custom_call" or len(op.operands) != 1:
        return False
    return str(op.attributes["call_target_name"]) == '"Sharding"'


def _clean(op: ir.Operation, name: str) -> None:
    if op.name != "func.func" or name not in op.attributes:
        return
    rows = []
    for item in ir.ArrayAttr(op.attributes[name]):
        rows.append(ir.DictAttr.get({k: item[k] for k in keys(item) if k not in SHARDINGS}))
    op.attributes[name] = ir.ArrayAttr.get(rows)


def _merged(module: ir.Module) -> str:
    """The text, once each copy has been found equal to its function and removed."""
    functions = {
        ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation
        for view in module.body.operations
        if view.operation.name == "func.func"
    }
    copies = {name: match[1] for name in functions if (match := COPY.match(name))}

    def call(op: ir.Operation) -> ir.WalkResult:
        for name in ("callee", "decomposition"):
            if op.name in ("func.call", "stablehlo.composite") and name in op.attributes:
                called = ir.FlatSymbolRefAttr(op.attributes[name]).value
                new = ir.FlatSymbolRefAttr.get(copies.get(called, called))
                op.attributes[name] = new
        return ir.WalkResult.ADVANCE

    module.operation.walk(call, ir.WalkOrder.PRE_ORDER)
    for name, original in copies.items():
        functions[name].attributes["sym_name"] = ir.StringAttr.get(original)
        assert _text(functions[name]) == _text(functions[original]), name
        functions[name].erase()
    module.operation.verify()
    text: str = module.operation.get_asm(enable_debug_info=True)
    return text


def _text(function: ir.Operation) -> str:
    """The text of a function, its values numbered from 0."""
    numbers: dict[str, str] = {}
    text: str = function.get_asm(enable_debug_info=False)
    return re.sub(r"%\w+", lambda name: numbers.setdefault(name[0], f"%{len(numbers)}"), text)
