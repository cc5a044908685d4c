"""Fourier transforms: the dimensions along which they run."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir


def transformed(op: Any) -> int:
    """How many dimensions, the last ones, a Fourier transform runs along; 0 for all other ops."""
    if op.name != "stablehlo.fft":
        return 0
    return len(ir.DenseI64ArrayAttr(op.attributes["fft_length"]))
