"""Cycles of products of two large operands: what is read again for every block of the result."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

DEPTH = 8192
SIDES = (2048, 4096, 6144, 8192, 12288, 16384, 24576)
"""Rows of one operand and columns of the other: in 16 bits as many times 16 KiB."""


def product(x: Any, w: Any) -> Any:
    """Nothing but a product."""
    return x @ w


def cycles(compiled: Compiled) -> int:
    """Those that the compiler estimates for all."""
    return int(sum(compiled.verdict.cycles.values()))


PROBE = Probe(
    name="dot_tiling",
    figures="cycles of a product of two operands in 16 bits",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2"),
    cases={
        f"{rows} x {DEPTH} by {DEPTH} x {columns}": Case.of(
            partial(lowered, product, (rows, DEPTH), (DEPTH, columns), dtype="bfloat16"), cycles
        )
        for rows, columns in [*((side, side) for side in SIDES), (2048, 24576), (24576, 2048)]
    },
)
