"""The compiler's own estimate of cycles, by what the cycles are spent on."""

from __future__ import annotations

import re
from collections import defaultdict

from toast.aot.collectives import has_collective
from toast.aot.hlo import HloModule, Instruction
from toast.aot.run_counts import runs

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_AGAIN = re.compile(r"\.remat\d*(\.|$)")
_BY_OPCODE = (
    ("contraction", {"convolution", "dot"}),
    ("scatter", {"scatter"}),
    ("sort", {"sort"}),
    ("gather", {"gather"}),
    ("reduce", {"reduce", "reduce-window"}),
    ("update", {"dynamic-update-slice"}),
)
# What the compiler writes where it does not know is the largest 64-bit number.
_UNKNOWN = 2**62
_FREE = frozenset({"parameter", "bitcast", "tuple", "get-tuple-element"})
_KERNEL = "tpu_custom_call"
"""Calls a kernel, the compiler's or the user's, of which it knows no cycles."""
_LEFT_OUT = frozenset(
    {"gather", "scatter", "sort", "reverse", "reduce-window", "select-and-scatter"}
)
_COPIES = frozenset({"copy", "copy-start", "transpose", "slice", "slice-start", "concatenate"})


def cycles_by_category(module: HloModule) -> dict[str, float]:
    """Estimated cycles of one step, times loop trips; empty for a compiler that gives none.

    Categories: contraction, scatter, sort, gather, reduce, update, collective, copy and loop
    (whatever else is elementwise). A fusion counts as the first of these that it holds.
    """
    total: defaultdict[str, float] = defaultdict(float)
    for run in runs(module):
        if run.fused:
            continue
        for instruction in run.computation.instructions:
            if cycles := estimated_cycles(instruction):
                total[category(module, instruction)] += run.trips * cycles
    return dict(total)


def unestimated(module: HloModule) -> dict[str, float]:
    """How often what takes time runs without an estimate: kernels, gathers, scatters and sorts.

    Reversals of rows as well, poolings that are fused with nothing, and gradients of those that
    take maxima. Empty for a compiler that estimates nothing.
    """
    total: defaultdict[str, float] = defaultdict(float)
    for run in runs(module):
        for instruction in () if run.fused else run.computation.instructions:
            if estimated_cycles(instruction):
                continue
            kernel = _KERNEL in instruction.tail and instruction.opcode == "custom-call"
            opcodes = {"kernel"} if kernel else _contents(module, instruction)[0] & _LEFT_OUT
            if opcodes:
                total[min(opcodes)] += run.trips
    return dict(total) if cycles_by_category(module) else {}


def estimated_cycles(instruction: Instruction) -> int:
    """The compiler's estimate for one instruction; 0 where it has none."""
    match = _CYCLES.search(instruction.tail)
    return int(match[1]) if match is not None and int(match[1]) < _UNKNOWN else 0


def rematerialized(module: HloModule) -> int:
    """How many instructions of a schedule are computed again to save memory, fused ones as one."""
    return sum(
        _AGAIN.search(instruction.name) is not None and instruction.opcode not in _FREE
        for run in runs(module)
        if not run.fused
        for instruction in run.computation.instructions
    )


def category(module: HloModule, instruction: Instruction) -> str:
    """What an instruction spends its time on."""
    opcodes, collective = _contents(module, instruction)
    for name, wanted in _BY_OPCODE:
        if opcodes & wanted:
            return name
    if collective:
        return "collective"
    if opcodes - _FREE <= _COPIES:
        return "copy"
    return "loop"


def _contents(module: HloModule, instruction: Instruction) -> tuple[set[str], bool]:
    if instruction.opcode != "fusion":
        return {instruction.opcode}, False
    opcodes: set[str] = set()
    collective = False
    for name in instruction.called("calls"):
        computation = module.computations.get(name)
        if computation is None:
            continue
        collective = collective or has_collective(computation)
        for inner in computation.instructions:
            if inner.opcode == "fusion":
                more, nested = _contents(module, inner)
                opcodes |= more
                collective = collective or nested
            else:
                opcodes.add(inner.opcode)
    return opcodes, collective
