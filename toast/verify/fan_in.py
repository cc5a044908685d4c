"""How many terms a product that an argument goes into adds up."""

from __future__ import annotations

import math
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.program import PASSING

_FOLLOWED = PASSING | {"stablehlo.bitcast_convert"}
"""Ops whose results hold what their operands hold, one for one."""


def fan_ins(main: Any, functions: dict[str, Any]) -> dict[int, int]:
    """For arguments of `main` that are factors of a product, the terms of the first such sum."""
    tracer = _Tracer(functions)
    for index, argument in enumerate(main.arguments):
        tracer.origin[argument] = index
    tracer.block(main.regions[0].blocks[0])
    return tracer.found


class _Tracer:
    """Follows arguments forward, through loops and calls, in program order."""

    def __init__(self, functions: dict[str, Any]) -> None:
        self.origin: dict[Any, int] = {}
        self.found: dict[int, int] = {}
        self._functions = functions

    def block(self, block: Any) -> None:
        """Follow what comes into a block."""
        for view in block.operations:
            self._op(view.operation)

    def _op(self, op: Any) -> None:
        name = op.name
        if name in _FOLLOWED or name == "stablehlo.while":
            self._pass(op.operands, op.results)
        if name == "stablehlo.while":
            for region in op.regions:
                self._enter(op.operands, region.blocks[0])
        elif name in ("stablehlo.case", "stablehlo.if"):
            for region in op.regions:
                self.block(region.blocks[0])
        elif name in ("func.call", "call"):
            callee = self._functions.get(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
            if callee is not None:
                block = callee.regions[0].blocks[0]
                self._enter(op.operands, block)
                self._pass(list(block.operations)[-1].operation.operands, op.results)
        elif name in _TERMS:
            for number, terms in enumerate(_TERMS[name](op)):
                argument = self.origin.get(op.operands[number])
                if argument is not None:
                    self.found.setdefault(argument, terms)

    def _enter(self, operands: Any, block: Any) -> None:
        self._pass(operands, block.arguments)
        self.block(block)

    def _pass(self, sources: Any, targets: Any) -> None:
        """A function is followed at each of its calls, and holds what that one passes."""
        for source, target in zip(sources, targets, strict=False):
            if source in self.origin:
                self.origin[target] = self.origin[source]
            else:
                self.origin.pop(target, None)


def _shape(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _dot(op: Any) -> tuple[int, int]:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    shape = _shape(op.operands[0])
    terms = math.prod(shape[dim] for dim in numbers.lhs_contracting_dimensions)
    return terms, terms


def _convolution(op: Any) -> tuple[int, int]:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    kernel = _shape(op.operands[1])
    terms = math.prod(kernel) // kernel[numbers.kernel_output_feature_dimension]
    return terms, terms


_TERMS = {"stablehlo.convolution": _convolution, "stablehlo.dot_general": _dot}
