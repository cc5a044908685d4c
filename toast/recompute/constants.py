"""Constants of one number."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


def zeros(kind: Any) -> Any:
    """Zeros of a type."""
    return constant(kind, 0)


def constant(kind: Any, number: int) -> Any:
    """A constant of one number; those of floats and truth values are zero."""
    element = str(ir.RankedTensorType(kind).element_type)
    text = str(number)
    if element.startswith("complex"):
        text = "(0.0, 0.0)"
    elif element == "i1":
        text = "false"
    elif not element.lstrip("u").startswith("i"):
        text = "0.0"
    return stablehlo.constant(ir.DenseElementsAttr(ir.Attribute.parse(f"dense<{text}> : {kind}")))
