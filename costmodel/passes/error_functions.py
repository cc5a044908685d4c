"""Error functions between two products: a TPU makes their comparisons with the first one.

An error function compares its argument twice. libtpu makes the comparisons beside the first
product, packs those of a batch into integers, and unpacks them before the second product, which
makes the rest. With a gradient, which reads the argument too, it unpacks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.op_traits import ERRORS

PACKED_RANK = 3
"""Comparisons are packed over the first of so many dimensions."""


def unpacked_values(program: Program, fusion: Fusion) -> dict[int, list[int]]:
    """By fusion with a product the values before it whose comparisons it unpacks."""
    if not (fusion.profile.fusion.packs_comparisons and named(program, ERRORS).any()):
        return {}
    packed, launched = _packed(program, fusion), fusion.launched
    found: dict[int, list[int]] = {}
    for number in np.flatnonzero(np.diff(launched.dot_start)).tolist():
        uses = [use for dot in launched[number].contractions for use in program.uses_of(dot)]
        compared = {
            value
            for use in uses
            for value in _compared(program, fusion, program.sources[use])
            if packed[value]
        }
        if compared:
            found[number] = sorted(compared)
    return found


def _packed(program: Program, fusion: Fusion) -> Bools:
    """For each value whether a product made it for a batch of several, and one fusion reads it."""
    launched = fusion.launched
    readers = np.bincount(program.use_value[launched.reads], minlength=program.values)
    multiplied = np.zeros(program.ops, dtype=np.bool_)
    multiplied[launched.ops] = (np.diff(launched.dot_start) > 0)[launched.rows(launched.op_start)]
    found = multiplied[program.value_op] & fusion.written & (readers == 1)
    for value in np.flatnonzero(found).tolist():
        shape = program.shape(value)
        found[value] = len(shape) >= PACKED_RANK and shape[0] > 1
    return found


def _compared(program: Program, fusion: Fusion, value: int) -> Iterator[int]:
    """The values in memory of which error functions are made inside what a value is made of."""
    pending, seen = [(value, False)], set[tuple[int, bool]]()
    while pending:
        one, inside = pending.pop()
        if (one, inside) in seen:
            continue
        seen.add((one, inside))
        if fusion.written[one]:
            if inside:
                yield one
            continue
        op = int(program.value_op[one])
        error = inside or program.kind(op) in ERRORS
        pending += [(program.sources[use], error) for use in program.uses_of(op)]
