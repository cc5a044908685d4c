"""Operands that a TPU stores for a product, though it computes what feeds others inside them.

What a broadcast made larger, as keys and values that several heads share, in 16 bits. And what a
batch of products reads of a part of something that is split, as queries, keys and values that one
product makes. A product of one row is no product there, and computes that inside as anything else
does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.program.contractions import BATCH, LEFT, RIGHT, Sides
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.op_traits import LAYOUT

BROADCAST = "stablehlo.broadcast_in_dim"
JOIN = "stablehlo.concatenate"


def repeated_operands(program: Program, sides: dict[int, Sides]) -> Bools:
    """For each use whether a product of several rows and columns reads what was repeated."""
    ops = [op for op in program.ops_named(BROADCAST) if _repeats(program, op)]
    return _read(program, {op: one for op, one in sides.items() if not _reduces(one)}, ops)


def split_operands(program: Program, sides: dict[int, Sides], slices: Bools) -> Bools:
    """For each use whether a batch of products reads what some `slices` cut."""
    batches = {op: one for op, one in sides.items() if _has_batch(one) and not _reduces(one)}
    return _read(program, batches, np.flatnonzero(slices).tolist())


def joined_parts(program: Program, stored: Bools) -> Bools:
    """For each value whether it is stored for a product that joins it with others."""
    found = np.zeros(program.values, dtype=np.bool_)
    joins = np.isin(program.use_op, program.ops_named(JOIN))
    found[program.use_value[stored & joins]] = True
    return found


def _read(program: Program, products: Collection[int], makers: Iterable[int]) -> Bools:
    """For each use whether one of some products reads what one of some ops makes, moved or not.

    Of what is joined with others for a product each part is stored, and joined inside it.
    """
    found = np.zeros(len(program.use_value), dtype=np.bool_)
    for use in _moved_to(program, [program.values_of(op)[0] for op in makers]):
        user = program.user(use)
        if program.kind(user) == JOIN:
            joined = _moved_to(program, [program.values_of(user)[0]])
            found[use] = any(program.user(one) in products for one in joined)
        else:
            found[use] = user in products
    return found


def _moved_to(program: Program, values: Iterable[int]) -> Iterator[int]:
    """The uses that values come to, through ops that only move what they read."""
    starts, uses = program.readers
    pending = list(values)
    while pending:
        value = pending.pop()
        for use in uses[starts[value] : starts[value + 1]].tolist():
            yield use
            user = program.user(use)
            if program.kind(user) in LAYOUT and not _repeats(program, user):
                pending.append(program.values_of(user)[0])


def _has_batch(sides: Sides) -> bool:
    return any(side == BATCH and size > 1 for side, size in sides)


def _repeats(program: Program, op: int) -> bool:
    """Whether an op makes more elements of several."""
    if program.kind(op) != BROADCAST:
        return False
    elements = program.elements
    source, made = program.sources[program.uses_of(op)[0]], program.values_of(op)[0]
    return bool(1 < elements[source] < elements[made])


def _reduces(sides: Sides) -> bool:
    """Whether a batch of products has one row or column, so that it multiplies and adds up."""
    sizes = {one: math.prod(n for side, n in sides if side == one) for one in (BATCH, LEFT, RIGHT)}
    return sizes[BATCH] > 1 and min(sizes[LEFT], sizes[RIGHT]) == 1
