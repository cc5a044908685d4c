"""Layouts as Shardy attributes, and the check that MLIR takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from toast.analysis.constraint import constrained
from toast.costmodel.network.mesh import Mesh
from toast.plans.plan import Spec

MESH = "mesh"


class Shardings:
    """The attributes of specs in one context: few are distinct, and each is made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[tuple[str, ...], ...], tuple[str, ...]], Any] = {}

    def of(self, spec: Spec, partial: Sequence[str] = ()) -> Any:
        """The `TensorShardingAttr` of a spec, for a tensor that is `partial` over these axes."""
        key = tuple(map(tuple, spec)), tuple(partial)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _sharding(spec, partial)
        return found


def _sharding(spec: Spec, partial: Sequence[str]) -> Any:
    """The `TensorShardingAttr` of a spec; every dimension closed, so XLA keeps it to the letter."""
    dimensions = [
        sdy.DimensionShardingAttr.get([sdy.AxisRefAttr.get(axis) for axis in axes], is_closed=True)
        for axes in spec
    ]
    summed = [sdy.AxisRefAttr.get(axis) for axis in partial]
    return sdy.TensorShardingAttr.get(MESH, dimensions, unreduced_axes=summed)


def add_mesh(module: ir.Module, mesh: Mesh) -> None:
    """Declare the mesh that shardings name, at the start of a module."""
    axes = [sdy.MeshAxisAttr.get(axis.name, axis.size) for axis in mesh.axes]
    with ir.InsertionPoint.at_block_begin(module.body):
        sdy.MeshOp(MESH, sdy.MeshAttr.get(axes))


def verify(mesh: Mesh, sharded: Iterable[tuple[Any, Any]]) -> None:
    """Have MLIR verify that tensors of these types can have these attributes.

    `sharded` are distinct (type, attribute); raises `MLIRError` for one that does not fit. It is
    done in a module of its own: to verify all ops of a deep program again, which were verified as
    they were read, takes longer than to write them.
    """
    sharded = list(sharded)
    types, attributes = [one for one, _ in sharded], [one for _, one in sharded]
    module = ir.Module.create()
    add_mesh(module, mesh)
    given = [ir.DictAttr.get({"sdy.sharding": attribute}) for attribute in attributes]
    function = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get("sharded"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            "arg_attrs": ir.ArrayAttr.get(given),
        },
        regions=1,
        ip=ir.InsertionPoint(module.body),
    )
    block = function.regions[0].blocks.append(*types)
    at = ir.InsertionPoint(block)
    for argument, attribute in zip(block.arguments, attributes, strict=True):
        constrained(argument, attribute, at)
    ir.Operation.create("func.return", ip=at)
    module.operation.verify()
