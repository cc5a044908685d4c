"""Shardings that a module already has.

They are taken off before planning and named in the plan's warnings: the plan replaces them.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

_ATTRIBUTES = ("sdy.sharding", "mhlo.sharding")
_CONSTRAINT = "sdy.sharding_constraint"


def strip_shardings(module: ir.Module, main: ir.Operation) -> list[str]:
    """Remove meshes, sharding attributes and constraints; returns warnings that name them."""
    constraints = _remove_constraints(main)
    annotated = _strip_function(main)
    meshes = [op.operation for op in module.body.operations if op.operation.name == "sdy.mesh"]
    for mesh in meshes:
        mesh.erase()
    warnings = []
    if annotated:
        warnings.append(f"{annotated} shardings on arguments, results or ops were replaced.")
    if constraints:
        warnings.append(f"{constraints} sharding constraints of the module were replaced.")
    return warnings


def _remove_constraints(main: ir.Operation) -> int:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == _CONSTRAINT or _is_sharding_call(op):
            found.append(op)
        return ir.WalkResult.ADVANCE

    main.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in found:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
    return len(found)


def _is_sharding_call(op: ir.Operation) -> bool:
    if op.name != "stablehlo.custom_call" or len(op.operands) != 1:
        return False
    target: str = ir.StringAttr(op.attributes["call_target_name"]).value
    return target == "Sharding"


def _strip_function(main: ir.Operation) -> int:
    removed = 0
    for name in ("arg_attrs", "res_attrs"):
        if name not in main.attributes:
            continue
        kept = []
        for item in ir.ArrayAttr(main.attributes[name]):
            pairs = {k: item[k] for k in _keys(item) if k not in _ATTRIBUTES}
            removed += len(_keys(item)) - len(pairs)
            kept.append(ir.DictAttr.get(pairs))
        main.attributes[name] = ir.ArrayAttr.get(kept)
    return removed + _strip_ops(main)


def _keys(item: Any) -> list[str]:
    return [named.name if hasattr(named, "name") else str(named) for named in item]


def _strip_ops(main: ir.Operation) -> int:
    removed = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal removed
        for name in _ATTRIBUTES:
            if name in op.attributes:
                del op.attributes[name]
                removed += 1
        return ir.WalkResult.ADVANCE

    main.walk(visit, ir.WalkOrder.PRE_ORDER)
    return removed
