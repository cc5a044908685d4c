"""What a compiled program launches, and what is computed inside each of its fusions."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.probes.probe import Compiled
from toast.aot.hlo import Instruction

IDLE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
AHEAD = frozenset({"copy-start", "copy-done", "slice-start", "slice-done"})
"""What a TPU fetches to the chip while other things run."""
PRODUCTS = frozenset({"convolution", "dot"})


def launched(compiled: Compiled) -> Iterator[tuple[Instruction, list[str]]]:
    """What the entry computation runs, in order, and the opcodes of all that is inside."""
    module = compiled.module
    for one in module.entry.instructions:
        if one.opcode in IDLE | AHEAD:
            continue
        opcodes, waiting = [one.opcode], list(one.called("calls"))
        while waiting:
            inner = module.computations[waiting.pop()].instructions
            opcodes += [each.opcode for each in inner]
            waiting += [name for each in inner for name in each.called("calls")]
        yield one, opcodes


def is_product(one: Instruction, opcodes: list[str]) -> bool:
    """Whether a launch multiplies matrices: a product of XLA's, or a call of a library."""
    return bool(PRODUCTS & set(opcodes)) or (
        one.opcode == "custom-call" and "gemm" in one.tail.lower()
    )
