"""Which ops may run on the sum of a microbatch, because they commute with adding them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from toast.microbatch.colour import bits_of
from toast.microbatch.kinds import Dependence
from toast.microbatch.roles import adds
from toast.microbatch.tree import OpNode


def _named(*names: str) -> frozenset[str]:
    return frozenset(f"stablehlo.{name}" for name in names)


_EACH = _named(
    "add", "complex", "concatenate", "imag", "negate", "real", "reverse", "subtract", "transpose",
    "broadcast_in_dim", "reshape", "slice",
) | {"sdy.sharding_constraint"}  # fmt: skip
"""Linear in all of their operands together."""
_ONE_OF = _named("convolution", "dot", "dot_general", "multiply")
"""Linear in each operand by itself."""
_IN = {
    "stablehlo.divide": (0,),
    "stablehlo.dynamic_slice": (0,),
    "stablehlo.dynamic_update_slice": (0, 1),
    "stablehlo.gather": (0,),
    "stablehlo.pad": (0, 1),
    "stablehlo.reduce": (0, 1),
    "stablehlo.reduce_window": (0, 1),
    "stablehlo.scatter": (0, 2),
    "stablehlo.select": (1, 2),
}
"""Linear in these operands together."""
_ADDING = _named("reduce", "reduce_window", "scatter")
SHIFTING = _EACH | _named("convert", "dynamic_slice", "dynamic_update_slice", "pad")
"""Ops that make zeros of zeros."""


def is_linear(node: OpNode, kinds: Sequence[Dependence]) -> bool:
    """Whether an op on sums of a microbatch makes such sums; `kinds` are those of what it reads."""
    summed = [number for number, kind in enumerate(kinds) if kind is Dependence.SUM]
    alike = [
        number for number, kind in enumerate(kinds) if kind in (Dependence.SUM, Dependence.ZERO)
    ]
    if node.name == "stablehlo.convert":
        return _converts(node)
    if node.name in _EACH:
        return len(alike) == len(node.operands)
    if node.name in _ONE_OF:
        return len(summed) == 1
    places = _IN.get(node.name)
    if places is None or (node.name in _ADDING and not adds(node)):
        return False
    if node.name == "stablehlo.divide" and not _is_float(node.results[0]):
        return False
    return set(summed) <= set(places) <= set(alike)


def makes_zeros(node: OpNode, kinds: Sequence[Dependence]) -> bool:
    """Whether an op that is given zeros makes nothing else."""
    if node.name == "stablehlo.constant":
        return _is_zero(node.op)
    if node.name not in SHIFTING:
        return False
    places = _IN.get(node.name, range(len(node.operands)))
    return all(kinds[number] is Dependence.ZERO for number in places)


def element(value: Any) -> Any:
    """The type of a tensor's elements."""
    return ir.RankedTensorType(value.type).element_type


def widens(node: OpNode) -> bool:
    """Whether an op converts to floats of more bits."""
    if node.name != "stablehlo.convert" or not _is_float(node.results[0]):
        return False
    return bits_of(element(node.results[0])) > bits_of(element(node.operands[0]))


def _converts(node: OpNode) -> bool:
    """To floats, or to more integers: sums stay what they are but for rounding."""
    source, target = element(node.operands[0]), element(node.results[0])
    if _is_float(node.results[0]):
        return True
    integers = isinstance(source, ir.IntegerType) and isinstance(target, ir.IntegerType)
    return integers and bits_of(target) >= bits_of(source) and str(target) != "i1"


def _is_float(value: Any) -> bool:
    kind = element(value)
    if isinstance(kind, ir.ComplexType):
        return True
    return not isinstance(kind, ir.IntegerType)


def _is_zero(op: Any) -> bool:
    try:
        attribute = op.attributes["value"]
    except TypeError:
        return False
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return False
    text = str(attribute.get_splat_value()).split(":")[0].strip()
    try:
        return float(text) == 0.0
    except ValueError:
        return False
