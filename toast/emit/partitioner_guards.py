"""Ops that XLA's partitioner must not be left alone with.

Where a window slides over a dimension that a plan keeps whole, or splits in an even way, XLA may
split it in another way by itself, and then computes something else or dies (docs/ops.md lists what
was seen). Such ops have their first operand and their results pinned to the plan's layouts.
"""

from __future__ import annotations

from collections.abc import Iterator

from toast.analysis.program import FactorKind, Program

_WINDOWED = frozenset(
    {"stablehlo.convolution", "stablehlo.reduce_window", "stablehlo.select_and_scatter"}
)
_ALWAYS = frozenset({FactorKind.HALO, FactorKind.BLOCKED})


def guarded_ops(program: Program) -> Iterator[int]:
    """Ops with windows over dimensions that are not simply split."""
    kinds = {
        number: _ALWAYS if name in _WINDOWED else frozenset({FactorKind.BLOCKED})
        for number, name in enumerate(program.names)
        if name in _WINDOWED or name == "stablehlo.pad"
    }
    for op, name in enumerate(program.op_name.tolist()):
        if name in kinds and _has(program, op, kinds[name]):
            yield op


def _has(program: Program, op: int, kinds: frozenset[FactorKind]) -> bool:
    return any(
        program.factor_kind[factor] in kinds and program.factor_size[factor] > 1
        for factor in program.factors_of(op)
    )
