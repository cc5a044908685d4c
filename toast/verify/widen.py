"""The same module with every float in 64 bits, where rounding hides nothing.

Layouts, ops and what the partitioner makes of them stay as they are. Constants keep their type and
are converted; so is what is made of the bits of a float, or into them.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import resolve_calls
from toast.analysis.errors import UnsupportedModule
from toast.analysis.facts import SDY
from toast.analysis.flatten import flatten_calls
from toast.analysis.operations import operations_within

_CONSTANTS = frozenset({"stablehlo.constant", "sdy.constant", "chlo.constant"})
_BITS = "stablehlo.bitcast_convert"
_OPAQUE = frozenset(
    {
        "stablehlo.reduce_precision",
        "stablehlo.uniform_dequantize",
        "stablehlo.uniform_quantize",
    }
)
_SHARDING = "Sharding"


def widen(module: ir.Module) -> None:
    """Give `module` 64-bit floats in place; its calls are inlined.

    Raises `UnsupportedModule` where an op wants the floats that it has.
    """
    with module.context, ir.Location.unknown():
        main = flatten_calls(resolve_calls(module))
        wide = _Wide()
        ops = operations_within(main)
        for op in ops:
            _check(op)
        for op in ops:
            wide.change(op)
        wide.retype(main.regions[0].blocks[0].arguments)
        entry = main.regions[0].blocks[0]
        returned = list(entry.operations)[-1].operation
        kind = ir.FunctionType.get(
            [value.type for value in entry.arguments], [value.type for value in returned.operands]
        )
        main.attributes["function_type"] = ir.TypeAttr.get(kind)
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            said = str(error).strip().splitlines()[-1]
            raise _refusal(said[:200]) from None


def _check(op: Any) -> None:
    name = op.name
    if name == "stablehlo.custom_call":
        target: str = ir.StringAttr(op.attributes["call_target_name"]).value
        floats = any(_is_float(value) for value in [*op.operands, *op.results])
        if target != _SHARDING and floats:
            raise _refusal(f"{name} @{target} wants the floats that it has")
    if name in _OPAQUE:
        raise _refusal(f"{name} wants the floats that it has")


def _refusal(why: str) -> UnsupportedModule:
    return UnsupportedModule(f"The program cannot be run in 64-bit floats: {why}.")


def _element(value: Any) -> Any:
    kind = value.type
    return ir.RankedTensorType(kind).element_type if isinstance(kind, ir.RankedTensorType) else None


def _is_float(value: Any) -> bool:
    element = _element(value)
    return isinstance(element, ir.FloatType | ir.ComplexType)


class _Wide:
    """Changes types; each distinct type is made once."""

    def __init__(self) -> None:
        self._types: dict[Any, Any] = {}

    def change(self, op: Any) -> None:
        """Widen what an op makes, its regions' arguments, and what it may not be given wide."""
        for region in op.regions:
            for block in region.blocks:
                self.retype(block.arguments)
        if "algorithm" in op.attributes:
            del op.attributes["algorithm"]
        if op.name in _CONSTANTS or (op.name == _BITS and _is_float(op.results[0])):
            self._convert_result(op)
        elif op.name == _BITS and _is_float(op.operands[0]):
            self._convert_operand(op)
        else:
            self.retype(op.results)

    def retype(self, values: Any) -> None:
        """Give values 64-bit floats where they are floats."""
        for value in values:
            if _is_float(value):
                value.set_type(self._wide(value.type))

    def _wide(self, kind: Any) -> Any:
        if kind not in self._types:
            tensor = ir.RankedTensorType(kind)
            wide: Any = ir.F64Type.get()
            if isinstance(tensor.element_type, ir.ComplexType):
                wide = ir.ComplexType.get(wide)
            self._types[kind] = ir.RankedTensorType.get(list(tensor.shape), wide)
        return self._types[kind]

    def _convert_result(self, op: Any) -> None:
        value = op.results[0]
        if not _is_float(value) or value.type == self._wide(value.type):
            return
        users = [(use.owner, use.operand_number) for use in value.uses]
        with ir.InsertionPoint.after(op):
            made = self._converted(value, self._wide(value.type), op)
        for user, number in users:
            user.operands[number] = made

    def _convert_operand(self, op: Any) -> None:
        """Back to the type that the op had: it was given the value as it came, wide by now."""
        value = op.operands[0]
        bits = ir.IntegerType(_element(op.results[0])).width
        narrow = {16: ir.BF16Type, 32: ir.F32Type, 64: ir.F64Type}.get(bits)
        if narrow is None:
            raise _refusal(f"{op.name} looks at {bits} bits of a float")
        kind = ir.RankedTensorType.get(list(ir.RankedTensorType(value.type).shape), narrow.get())
        with ir.InsertionPoint(op):
            op.operands[0] = self._converted(value, kind, op)

    @staticmethod
    def _converted(value: Any, kind: Any, op: Any) -> Any:
        """The value in another type; it is laid out as `op` says that its own result is."""
        stated = {SDY: op.attributes[SDY]} if SDY in op.attributes else {}
        return ir.Operation.create(
            "stablehlo.convert", results=[kind], operands=[value], attributes=stated
        ).results[0]
