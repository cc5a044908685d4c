"""Shapes, element types and sizes of MLIR tensor types, each distinct type read once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import Calls, callee_of
from toast.analysis.errors import UnsupportedModule

_BITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """A ranked static tensor: its shape and the name of its element type."""

    shape: tuple[int, ...]
    dtype: str


class TypeReader:
    """Reads tensor types; tokens and tuples read as empty tensors of their own type name."""

    def __init__(self) -> None:
        self._read: dict[Any, TensorType] = {}

    def read(self, kind: ir.Type, where: Any) -> TensorType:
        """The tensor type `kind`; raises `UnsupportedModule` for a dynamic shape.

        `where` is the op that has it, or says where that is.
        """
        known = self._read.get(kind)
        if known is None:
            known = self._read[kind] = _tensor(kind, where)
        return known


def check_static(calls: Calls) -> None:
    """Raise `UnsupportedModule` where a program has a dynamic shape.

    Shardy's passes abort or fail on it, so this runs before them.
    """
    reader = TypeReader()
    for index, argument in enumerate(calls.main.regions[0].blocks[0].arguments):
        reader.read(argument.type, f"argument {index}")
    checked: set[str] = set()
    wrong: list[UnsupportedModule] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = callee_of(op)
        if name is None:
            check(op)
        elif name not in checked:
            checked.add(name)
            calls.functions[name].walk(visit, ir.WalkOrder.PRE_ORDER)
        return ir.WalkResult.INTERRUPT if wrong else ir.WalkResult.ADVANCE

    def check(op: ir.Operation) -> None:
        # What is raised in a walk would come out as MLIR's own error.
        try:
            for result in op.results:
                reader.read(result.type, op)
        except UnsupportedModule as error:
            wrong.append(error)

    calls.main.walk(visit, ir.WalkOrder.PRE_ORDER)
    if wrong:
        raise wrong[0]


def _tensor(kind: ir.Type, where: Any) -> TensorType:
    if not isinstance(kind, ir.RankedTensorType):
        return TensorType(shape=(0,), dtype=str(kind))
    tensor = ir.RankedTensorType(kind)
    if not tensor.has_static_shape:
        place = str(getattr(where, "location", where))
        raise UnsupportedModule(
            f"The module has a dynamic shape: {tensor} at {place[:200]}.",
            "Lower it again with concrete shapes.",
        )
    return TensorType(shape=tuple(tensor.shape), dtype=str(tensor.element_type))


def itemsize(dtype: str) -> float:
    """Bytes per element of an element type as MLIR spells it (`bf16`, `i1`, `complex<f32>`)."""
    if dtype in ("i1", "pred"):
        return 1.0
    match = _BITS.search(dtype)
    if match is None:
        return 8.0 if dtype == "index" else 0.0
    bits = int(match[1]) * (2 if dtype.startswith("complex") else 1)
    return bits / 8
