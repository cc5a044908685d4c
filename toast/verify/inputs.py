"""Inputs that a step can run on, made from the module alone and a seed.

Floats are normal. One that is multiplied into a product has the deviation 1 / sqrt(fan-in), so that
what comes out is as large as what goes in; others have 0.05. Two things would break with that and
are read off the module:
- an argument that reaches a square root, a logarithm or a power through elementwise ops (Adam's
  second moment) is made positive, 0.01 to 0.1, because Adam divides by the root of it;
- an integer that ends as an index of a gather (token ids) is drawn below the size it indexes, so
  that every shard of a sharded vocabulary is hit. Other integers are 0 to 7.

`conditioning.py` makes all of them smaller or larger where a first run says that it has to.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from toast.analysis.operations import operations_within
from toast.verify.fan_in import fan_ins

DEVIATION = 0.05
DEFAULT_BOUND = 8
MAX_STEPS = 256

ROOTS = {"stablehlo.sqrt", "stablehlo.rsqrt", "stablehlo.log", "stablehlo.power"}
MOVES = {
    f"stablehlo.{name}"
    for name in ("broadcast_in_dim", "convert", "reshape", "select", "slice", "transpose")
}
ELEMENTWISE = MOVES | {f"stablehlo.{name}" for name in ("add", "divide", "maximum", "multiply")}
INDEX_STEPS = MOVES | {f"stablehlo.{name}" for name in ("add", "clamp", "concatenate")}

Array = np.ndarray[Any, Any]

_MOVED = frozenset({"bfloat16", "float16", "float32", "float64"})
_NAMED_TYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputArgument:
    """What an argument of `main` needs to be.

    `is_state`: a result has its type, which would be what becomes of it in a step; else it is data.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    positive: bool
    bound: int | None
    deviation: float = DEVIATION
    is_state: bool = False


def numpy_dtype(element: str) -> np.dtype[Any]:
    """The NumPy type of an MLIR element type; raises ValueError for one that has none."""
    if element in _NAMED_TYPES:
        return np.dtype(_NAMED_TYPES[element])
    if element.startswith("f8E"):
        return np.dtype(getattr(ml_dtypes, "float8_" + element[2:].lower()))
    kind, digits = element.rstrip("0123456789"), element.lstrip("siu")
    if kind in ("i", "si", "ui") and digits in ("8", "16", "32", "64"):
        return np.dtype(("uint" if kind == "ui" else "int") + digits)
    if kind in ("i", "si", "ui") and digits in ("2", "4"):
        return np.dtype(getattr(ml_dtypes, ("uint" if kind == "ui" else "int") + digits))
    raise ValueError(f"values of element type {element} cannot be made here")


def main_of(module: ir.Module) -> Any:
    """The public function `main`."""
    return next(op for op in module.body.operations if _symbol(op) == "main")


def describe_arguments(module: ir.Module) -> list[InputArgument]:
    """The arguments of `main` and what they have to be; reads the module, changes nothing."""
    functions = {_symbol(op): op for op in module.body.operations}
    main = functions["main"]
    positive = _positive_arguments(main)
    bounds = [_index_bound(argument, functions) for argument in main.arguments]
    widths = fan_ins(main, functions)
    states = _states(main)
    arguments = []
    for index, value in enumerate(main.arguments):
        kind = ir.RankedTensorType(value.type)
        arguments.append(
            InputArgument(
                index=index,
                name=_name(value, index),
                shape=tuple(kind.shape),
                dtype=numpy_dtype(str(kind.element_type)),
                positive=index in positive,
                bound=bounds[index] or _bound_of_twin(main, bounds, index),
                deviation=widths[index] ** -0.5 if index in widths else DEVIATION,
                is_state=index in states,
            )
        )
    return arguments


def make_inputs(arguments: list[InputArgument], seed: int, scale: float = 1.0) -> list[Array]:
    """One array for each argument; the same seed makes the same arrays.

    `scale` multiplies all floats but those that have to be positive.
    """
    return [
        _values(a, np.random.default_rng((seed, a.index, zlib.crc32(b"toast"))), scale)
        for a in arguments
    ]


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether values of a type are rounded."""
    return dtype.kind in "fc" or (dtype.kind == "V" and "float" in dtype.name)


def one_unit_off(values: Array, seed: int) -> Array:
    """Every float moved by one unit in its last place, up or down; anything else as it is."""
    if values.dtype.kind == "c":
        parts = values.view(np.float32 if values.dtype == np.complex64 else np.float64)
        return one_unit_off(parts, seed).view(values.dtype)
    if values.dtype.name not in _MOVED:
        return values
    bits = values.view(f"i{values.dtype.itemsize}")
    # Of a float the bits without the sign grow with its magnitude.
    step = np.random.default_rng(seed).integers(0, 2, values.shape, dtype=np.int8) * 2 - 1
    moved = np.where(values == 0, bits, bits + step.astype(bits.dtype))
    return moved.astype(bits.dtype).view(values.dtype)


def _values(argument: InputArgument, random: np.random.Generator, scale: float) -> Array:
    shape, dtype = argument.shape, argument.dtype
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind == "u" and argument.bound is None and dtype.itemsize >= 4:
        return random.integers(0, 2**32, shape).astype(dtype)  # the bits of a random key
    if dtype.kind in "iu" or "int" in dtype.name:
        return random.integers(0, argument.bound or DEFAULT_BOUND, shape).astype(dtype)
    if argument.positive:
        return np.asarray(random.uniform(0.01, 0.1, shape)).astype(dtype)
    deviation = argument.deviation * scale
    normal = np.asarray(random.normal(0.0, deviation, shape))
    if dtype.kind == "c":
        normal = normal + 1j * random.normal(0.0, deviation, shape)
    return normal.astype(dtype)


def _states(main: Any) -> set[int]:
    """The arguments of which each has a result of its type for itself."""
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    made = Counter(kind.results)
    states = set()
    for index, one in enumerate(kind.inputs):
        if made[one]:
            made[one] -= 1
            states.add(index)
    return states


def _positive_arguments(main: Any) -> set[int]:
    """Arguments that reach a root, a logarithm or a power through elementwise ops."""
    found: set[int] = set()
    for op in operations_within(main):
        if op.name in ROOTS:
            found |= _arguments_behind(op.operands[0])
    return found


def _arguments_behind(value: Any) -> set[int]:
    pending: list[Any] = [value]
    seen: set[Any] = set()
    found: set[int] = set()
    while pending and len(seen) < MAX_STEPS:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Block):
            if _symbol(value.owner.owner) == "main":
                found.add(ir.BlockArgument(value).arg_number)
            continue
        op = value.owner
        # The square of anything is positive by itself.
        is_square = op.name == "stablehlo.multiply" and op.operands[0] == op.operands[1]
        if op.name in ELEMENTWISE and not is_square:
            pending.extend(op.operands)
    return found


def _index_bound(value: Any, functions: dict[str, Any]) -> int | None:
    """The smallest size that this value is used to index, where it is an index."""
    pending: list[Any] = [value]
    seen: set[Any] = set()
    bounds: list[int] = []
    while pending and len(seen) < MAX_STEPS:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op, position = use.owner, use.operand_number
            if op.name in ("stablehlo.gather", "stablehlo.dynamic_gather") and position == 1:
                bounds.append(_gathered_size(op))
            elif op.name in ("func.call", "call"):
                callee = functions.get(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
                if callee is not None:
                    pending.append(callee.arguments[position])
            elif op.name in INDEX_STEPS:
                pending.extend(op.results)
    return min(bounds, default=None)


def _gathered_size(op: Any) -> int:
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    shape = ir.RankedTensorType(op.operands[0].type).shape
    return min((shape[dim] for dim in numbers.start_index_map), default=1)


def _bound_of_twin(main: Any, bounds: list[int | None], index: int) -> int | None:
    """An integer argument of the same type as an index (targets beside tokens) gets its bound."""
    kind = main.arguments[index].type
    if not ir.RankedTensorType(kind).shape:
        return None
    twins = (b for b, v in zip(bounds, main.arguments, strict=True) if b and v.type == kind)
    return next(twins, None)


def _symbol(op: Any) -> str:
    attributes = op.attributes
    return str(ir.StringAttr(attributes["sym_name"]).value) if "sym_name" in attributes else ""


def _name(value: Any, index: int) -> str:
    text = str(value.location)
    return text.removeprefix('loc("').removesuffix('")') if '"' in text else f"argument {index}"
