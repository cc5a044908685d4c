"""Repeated layers by what they compute, for programs whose arguments have no telling names.

The products of the forward pass are a sequence. Where a piece of it stands several times in a row,
each time is a layer. Where a layer begins within the piece is open: every beginning is a candidate,
and the one that gains most is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxlib.mlir import ir

from toast.recompute.block import BlockOps
from toast.recompute.directions import Direction
from toast.recompute.layers import RepeatedLayers, cuts_between
from toast.recompute.names import line_of

_PRODUCTS = frozenset(
    f"stablehlo.{name}" for name in ("dot_general", "dot", "convolution", "gather", "scatter")
)
_LONGEST = 64
"""Products of one layer, at most."""
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class _Repeat:
    """A piece of so many products that begins at a place of the sequence and stands so often."""

    start: int
    length: int
    count: int


def repeated_layers(block: BlockOps, passes: Sequence[Direction]) -> list[RepeatedLayers]:
    """Layers by equal products in a row, each with every beginning that it may have."""
    places = [
        place
        for place, op in enumerate(block.ops)
        if passes[place] == Direction.FORWARD and op.name in _PRODUCTS
    ]
    numbers: dict[tuple[object, ...], int] = {}
    keys = np.array(
        [numbers.setdefault(_key(block.ops[place]), len(numbers)) for place in places], np.int64
    )
    found = []
    for repeat in _repeats(keys, 0):
        for begin in range(repeat.length):
            count = repeat.count if begin == 0 else repeat.count - 1
            if count >= _FEWEST:
                first = repeat.start + begin
                spans = [
                    (places[at], places[at + repeat.length - 1])
                    for at in range(first, first + count * repeat.length, repeat.length)
                ]
                cuts = cuts_between(block, passes, spans, places)
                line = line_of(block.ops[spans[0][0]].location)
                name = f"layers at {line}" if line else "layers"
                found.append(RepeatedLayers(name=name, cuts=cuts))
    return found


def _key(op: ir.Operation) -> tuple[object, ...]:
    """Equal for ops that compute the same of values of the same types."""
    types = (value.type for value in (*op.operands, *op.results))
    attributes = tuple(str(op.attributes[name]) for name in _TELLING if name in op.attributes)
    return (op.name, *types, *attributes)


_TELLING = ("dot_dimension_numbers", "dimension_numbers", "window_strides", "padding")


def _repeats(keys: np.ndarray[tuple[int], np.dtype[np.int64]], offset: int) -> Iterator[_Repeat]:
    """The repeat that covers most of a sequence, and those before and behind it."""
    best = _Repeat(0, 0, 0)
    for length in range(1, min(_LONGEST, len(keys) // _FEWEST) + 1):
        start, equal = _longest_run(keys[:-length] == keys[length:])
        count = equal // length + 1
        if count >= _FEWEST and count * length > best.count * best.length:
            best = _Repeat(start, length, count)
    if best.count == 0:
        return
    end = best.start + best.length * best.count
    yield from _repeats(keys[: best.start], offset)
    yield _Repeat(best.start + offset, best.length, best.count)
    yield from _repeats(keys[end:], offset + end)


def _longest_run(same: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """Where the longest run of what is true begins, and how long it is."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    which = int(np.argmax(lengths))
    return int(starts[which]), int(lengths[which])
