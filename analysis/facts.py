"""Shardings that a module already has: read, and taken off so that planning starts clean.

Facts on arguments and results are removed from the module and recorded. A constraint inside stays
where it is, as an op that passes its operand on, with a placeholder in place of its sharding.
What is stated within a function holds wherever that is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from toast.analysis.calls import Calls, callee_of
from toast.analysis.hlosharding import Tiles, parse_tiles
from toast.analysis.program import CONSTRAINT

SDY, MHLO = "sdy.sharding", "mhlo.sharding"


AxisNames = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """A sharding as a module states it: by mesh axis names, or by tiles of devices.

    `axes` are the axes of the module's own mesh, name to size. `required` is False where every
    dimension is open, which makes it a hint.
    """

    spec: AxisNames | None
    tiles: Tiles | None
    axes: dict[str, int]
    required: bool


Stated = dict[ir.Value, Sharding]
"""The shardings of constraint ops, by what they result in (ops hash by their attributes)."""


@dataclass(slots=True, kw_only=True)
class Facts:
    """Shardings by argument number, by result number, and by the number of a constraint op.

    `dropped` counts those that are not kept: on plain ops, or in a spelling not understood.
    """

    arguments: dict[int, Sharding]
    results: dict[int, Sharding]
    constraints: dict[int, Sharding]
    dropped: int = 0


def take_facts(module: ir.Module, calls: Calls) -> tuple[Facts, Stated]:
    """Read every sharding of a program and leave the module without meshes and shardings.

    Returns the facts of arguments and results, and those inside by the result of their constraint
    op.
    """
    facts = Facts(arguments={}, results={}, constraints={})
    stated: Stated = {}
    meshes = meshes_of(module)
    _take_dictionaries(calls.main, "arg_attrs", facts.arguments, meshes, facts)
    _take_dictionaries(calls.main, "res_attrs", facts.results, meshes, facts)
    for name, function in calls.functions.items():
        dropped = _take_ops(function, meshes, stated)
        facts.dropped += dropped * calls.times[name]
        if name != "main":
            _forget_dictionaries(function)
    for op in [op.operation for op in module.body.operations]:
        if op.name == "sdy.mesh":
            op.erase()
    return facts, stated


def _forget_dictionaries(function: ir.Operation) -> None:
    """What a function says of its own arguments and results goes with its calls."""
    for name in ("arg_attrs", "res_attrs"):
        if name in function.attributes:
            del function.attributes[name]


def meshes_of(module: ir.Module) -> dict[str, Any]:
    """The meshes that a module declares, by name."""
    return {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation.attributes["mesh"]
        for op in module.body.operations
        if op.operation.name == "sdy.mesh"
    }


def _take_dictionaries(
    main: ir.Operation, name: str, into: dict[int, Sharding], meshes: dict[str, Any], facts: Facts
) -> None:
    if name not in main.attributes:
        return
    kept = []
    for index, item in enumerate(ir.ArrayAttr(main.attributes[name])):
        pairs = {key: item[key] for key in keys(item)}
        stated = [pairs.pop(key) for key in (SDY, MHLO) if key in pairs]
        if stated:
            found = _read(stated[0], meshes)
            if found is None:
                facts.dropped += 1
            else:
                into[index] = found
        kept.append(ir.DictAttr.get(pairs))
    main.attributes[name] = ir.ArrayAttr.get(kept)


def keys(item: Any) -> list[str]:
    """The names in an MLIR dictionary, which iterates differently over versions of jaxlib."""
    return [named.name if hasattr(named, "name") else str(named) for named in item]


def _take_ops(function: ir.Operation, meshes: dict[str, Any], into: Stated) -> int:
    """Read the shardings within a function; returns how many are dropped."""
    stated: list[tuple[ir.Operation, Any]] = []
    dropped = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal dropped
        if op.name == CONSTRAINT:
            stated.append((op, op.attributes["sharding"]))
        elif _is_sharding_call(op):
            stated.append((op, op.attributes.get(MHLO, None)))
        else:
            for name in (SDY, MHLO):
                if name in op.attributes:
                    del op.attributes[name]
                    dropped += op.name != "func.func" and callee_of(op) is None
        return ir.WalkResult.ADVANCE

    function.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op, attribute in stated:
        found = None if attribute is None else _read(attribute, meshes)
        constraint = _placeholder(op)
        if found is None:
            dropped += 1
        else:
            into[constraint.results[0]] = found
    return dropped


def _is_sharding_call(op: ir.Operation) -> bool:
    if op.name != "stablehlo.custom_call" or len(op.operands) != 1:
        return False
    target: str = ir.StringAttr(op.attributes["call_target_name"]).value
    return target == "Sharding"


def _placeholder(op: ir.Operation) -> ir.Operation:
    """A constraint on no axis in the place of `op`, valid without any mesh in the module."""
    rank = len(ir.RankedTensorType(op.operands[0].type).shape)
    mesh = sdy.MeshAttr.get([])
    dims = [sdy.DimensionShardingAttr.get([], is_closed=True) for _ in range(rank)]
    with op.location, ir.InsertionPoint(op):
        made = sdy.ShardingConstraintOp(op.operands[0], sdy.TensorShardingAttr.get(mesh, dims))
    op.results[0].replace_all_uses_with(made.result)
    op.erase()
    operation: ir.Operation = made.operation
    return operation


def _read(attribute: Any, meshes: dict[str, Any]) -> Sharding | None:
    if isinstance(attribute, ir.StringAttr):
        tiles = parse_tiles(ir.StringAttr(attribute).value)
        if tiles is None:
            return None
        return Sharding(spec=None, tiles=tiles, axes={}, required=True)
    tensor = sdy.TensorShardingAttr(attribute)
    mesh = tensor.mesh_or_ref
    if isinstance(mesh, ir.FlatSymbolRefAttr):
        mesh = meshes.get(ir.FlatSymbolRefAttr(mesh).value)
    if mesh is None:
        return None
    axes = {_axis.name: _axis.size for _axis in map(sdy.MeshAxisAttr, sdy.MeshAttr(mesh).axes)}
    dims = [sdy.DimensionShardingAttr(dim) for dim in tensor.dimension_shardings]
    refs = [[sdy.AxisRefAttr(axis) for axis in dim.axes] for dim in dims]
    if any(ref.sub_axis_info is not None for dim in refs for ref in dim):
        return None
    return Sharding(
        spec=tuple(tuple(ref.name for ref in dim) for dim in refs),
        tiles=None,
        axes=axes,
        required=not dims or any(dim.is_closed for dim in dims),
    )
