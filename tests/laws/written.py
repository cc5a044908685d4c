"""The layouts that a written module has, read back from its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from toast.analysis.forms import decode
from toast.analysis.load import Source
from toast.analysis.program import CONSTRAINT
from toast.costmodel.resolved import ResolvedPlan
from toast.emit.specs import Specs
from toast.emit.writer import write
from toast.plans.plan import Spec

NUMBER = "toast.op"
RETURN = "func.return"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a written module says of arguments, results, and of each use of a value.

    `uses[use]` are the layouts that constraints give to the value on its way there, in order.
    """

    data: bytes
    arguments: list[Spec]
    results: list[Spec]
    uses: dict[int, list[Spec]]


def written(source: Source, resolved: ResolvedPlan) -> Written:
    """Write a plan and read the module again; `source` is of no use afterwards."""
    program, module = source.program, source.loaded.module
    with module.context, ir.Location.unknown():
        integer = ir.IntegerType.get_signless(64)
        for op in range(program.ops):
            if program.kind(op).startswith("stablehlo."):
                source.handles[op].attributes[NUMBER] = ir.IntegerAttr.get(integer, op)
    specs = Specs(resolved)
    data = write(source, resolved.evaluator.mesh, specs, specs.constraints())
    again = decode(data).module
    with again.context:
        main = next(op for op in again.body.operations if op.operation.name == "func.func")
        uses: dict[int, list[Spec]] = {}
        for one in main.regions[0].blocks[0].operations:
            operation = one.operation
            if operation.name == RETURN:
                pairs = zip(program.results, operation.operands, strict=True)
                uses |= {result.use: _path(value) for result, value in pairs}
            elif NUMBER in operation.attributes:
                op = ir.IntegerAttr(operation.attributes[NUMBER]).value
                first = int(program.op_uses[op])
                for number, value in enumerate(operation.operands):
                    uses[first + number] = _path(value)
        return Written(
            data=data,
            arguments=_annotated(main, "arg_attrs"),
            results=_annotated(main, "res_attrs"),
            uses=uses,
        )


def _path(value: Any) -> list[Spec]:
    found: list[Spec] = []
    while isinstance(value.owner, ir.Operation | ir.OpView):
        operation = value.owner.operation
        if operation.name != CONSTRAINT:
            break
        found.append(_spec(operation.attributes["sharding"]))
        value = operation.operands[0]
    return found[::-1]


def _annotated(main: Any, name: str) -> list[Spec]:
    rows = ir.ArrayAttr(main.attributes[name]) if name in main.attributes else ()
    return [_spec(ir.DictAttr(row)["sdy.sharding"]) for row in rows]


def _spec(attribute: Any) -> Spec:
    return [
        [sdy.AxisRefAttr(axis).name for axis in sdy.DimensionShardingAttr(dimension).axes]
        for dimension in sdy.TensorShardingAttr(attribute).dimension_shardings
    ]
