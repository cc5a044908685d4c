"""Parts of a dimension that are transposed: a TPU copies what no memory layout keeps in place.

A product can make its dimensions in any order, and the next can take them so. But where a program
splits a dimension, moves its parts apart and joins them with others, as windows of images are cut,
the parts that lie one behind another before are not those that do afterwards. What has 16 bits is
then copied tile by tile; of 32 bits whole tiles move where a batch fills their rows, and take no
time. The rows of a tile are of the last part of the largest dimension; few leave tiles empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from toast.analysis.program import ARGUMENT, Ints, Program
from toast.analysis.types import itemsize
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.row_layouts import TILE_ROWS
from toast.costmodel.program.contractions import NARROW
from toast.costmodel.program.op_traits import Role

TRANSPOSE, RESHAPE, BROADCAST = (
    f"stablehlo.{name}" for name in ("transpose", "reshape", "broadcast_in_dim")
)
MOVES = (TRANSPOSE, RESHAPE, BROADCAST)
"""A broadcast to as many elements adds dimensions of one, as a reshape does."""
LONGEST = 32
"""Ops of a chain that are looked through."""

Part = tuple[int, ...]
"""A part of a dimension: the number of the dimension, then which part of each part of it."""
Parts = list[tuple[Part, int]]
"""The parts of a dimension with their sizes, the outermost first; those of one element are left
out."""
Splits = dict[Part, Parts]


class Chain(NamedTuple):
    """What `ops` make of a value: its dimensions `before` and `after` them, in the same parts."""

    ops: list[int]
    given: int
    before: list[Parts]
    after: list[Parts]


def parted_values(program: Program, fusion: Fusion) -> dict[int, list[tuple[int, int]]]:
    """By fusion what it copies of 16 bits, and how often the tiles of that could hold it."""
    found: dict[int, list[tuple[int, int]]] = {}
    if not fusion.profile.layout_assignment.copies_parts:
        return found
    number = np.full(program.ops, -1)
    number[fusion.launched.ops] = fusion.launched.rows(fusion.launched.op_start)
    for op in program.ops_named(TRANSPOSE):
        stored, whole = (_chain(program, fusion, op, through) for through in (False, True))
        if stored is None or whole is None or _is_given(program, fusion, stored):
            continue
        if fits(stored.before, stored.after) or fits(whole.before, whole.after):
            continue
        host = _host(program, number, op)
        if host >= 0 and _is_narrow(program, fusion, stored.ops[-1]):
            value = program.values_of(op)[0]
            found.setdefault(host, []).append((value, TILE_ROWS // rows_of_tiles(stored.after)))
    return found


def fits(before: Sequence[Parts], after: Sequence[Parts]) -> bool:
    """Whether the parts can lie so that those of each dimension follow each other in both."""
    following: dict[Part, Part] = {}
    for part, successor in (pair for dims in (before, after) for pair in _pairs(dims)):
        if following.setdefault(part, successor) != successor:
            return False
    if len({*following.values()}) < len(following):
        return False
    for part in following:
        at, steps = part, 0
        while at in following and steps <= len(following):
            at, steps = following[at], steps + 1
        if steps > len(following):
            return False
    return True


def rows_of_tiles(dims: Sequence[Parts]) -> int:
    """Rows of the tiles of a copy: a power of two that holds the part that fills them, or eight."""
    *others, columns = [parts for parts in dims if parts] or [[]]
    if len(columns) > 1:
        size = columns[-2][1]
    elif others:
        size = max(others, key=lambda parts: math.prod(size for _, size in parts))[-1][1]
    else:
        size = TILE_ROWS
    return min(TILE_ROWS, 1 << (size - 1).bit_length())


def split(dims: Sequence[Parts], shape: Iterable[int]) -> tuple[list[Parts], Splits] | None:
    """The parts of the dimensions of a reshape, and those that it splits; None if none fit."""
    left = [part for parts in reversed(dims) for part in reversed(parts)]
    found, splits = list[Parts](), Splits()
    for size in shape:
        parts, open_size = list[tuple[Part, int]](), size
        while open_size > 1:
            part, own = left.pop() if left else ((), 0)
            if own and open_size % own == 0:
                parts.append((part, own))
                open_size //= own
            elif own and own % open_size == 0:
                splits[part] = [((*part, 0), open_size), ((*part, 1), own // open_size)]
                left += reversed(splits[part])
            else:
                return None
        found.append(parts)
    return found, splits


def _pairs(dims: Iterable[Parts]) -> list[tuple[Part, Part]]:
    return [(one, other) for parts in dims for (one, _), (other, _) in pairwise(parts)]


def _chain(program: Program, fusion: Fusion, op: int, through: bool) -> Chain | None:
    """What a transpose is part of, from what is stored on, or `through` that.

    None if another transpose is behind it, or where sizes of a reshape do not divide each other.
    """
    ops, value = [op], program.sources[program.uses_of(op)[0]]
    while len(ops) < LONGEST and (through or not fusion.written[value]):
        given = _passed(program, fusion, program.makers[value])
        if given < 0:
            break
        ops.append(program.makers[value])
        value = given
    ops.reverse()
    while len(ops) < 2 * LONGEST and (reader := _reader(program, fusion, ops[-1])) >= 0:
        if program.kind(reader) == TRANSPOSE:
            return None
        ops.append(reader)
    before = [_whole(dim, size) for dim, size in enumerate(program.shape(value))]
    after = [list(parts) for parts in before]
    for one in ops:
        if program.kind(one) == TRANSPOSE:
            after = [after[dim] for dim in _order(program, one)]
        elif program.kind(one) in MOVES:
            made = split(after, program.shape(program.values_of(one)[0]))
            if made is None:
                return None
            after, splits = made
            before = [_apart(parts, splits) for parts in before]
    return Chain(ops, value, before, after)


def _is_given(program: Program, fusion: Fusion, chain: Chain) -> bool:
    """Whether nothing but moves is made of an argument of the program."""
    given = program.kind(program.makers[chain.given]) == ARGUMENT
    return given and bool(fusion.flow.layout[chain.ops].all())


def _whole(dim: int, size: int) -> Parts:
    return [((dim,), size)] if size > 1 else []


def _apart(parts: Parts, splits: Splits) -> Parts:
    """Parts, each as what it is split into, and that again."""
    found: Parts = []
    for part, size in parts:
        found += _apart(splits[part], splits) if part in splits else [(part, size)]
    return found


def _order(program: Program, op: int) -> list[int]:
    names = program.use_names(program.uses_of(op)[0]).tolist()
    return [names.index(name) for name in program.def_names(program.values_of(op)[0]).tolist()]


def _passed(program: Program, fusion: Fusion, op: int) -> int:
    """The value of which an elementwise op makes one of as many elements; -1 for another op.

    It is the first that is neither constant nor spread.
    """
    made, moves = program.values_of(op), program.kind(op) in MOVES
    if fusion.flow.role[op] != Role.FUSIBLE or len(made) != 1:
        return -1
    for use in program.uses_of(op):
        value = program.sources[use]
        alike = program.elements[value] == program.elements[made[0]]
        alike &= moves or program.shape(value) == program.shape(made[0])
        spread = program.kind(program.makers[value]) == BROADCAST
        if alike and not (spread or program.constant[value]):
            return int(value)
    return -1


def _reader(program: Program, fusion: Fusion, op: int) -> int:
    """The elementwise op that alone reads what an op makes, and keeps its elements; or -1."""
    value = program.values_of(op)[0]
    starts, uses = program.readers
    if starts[value + 1] - starts[value] != 1:
        return -1
    reader = program.user(int(uses[starts[value]]))
    return reader if _passed(program, fusion, reader) == value else -1


def _is_narrow(program: Program, fusion: Fusion, op: int) -> bool:
    """Whether what an op makes has 16 bits: it is stored so, or products alone read it."""
    (starts, uses), last = program.readers, program.values_of(op)[0]
    readers = program.use_op[uses[starts[last] : starts[last + 1]]]
    multiplied = len(readers) > 0 and bool((fusion.flow.role[readers] == Role.CONTRACTION).all())
    return multiplied or bool(fusion.narrow[last]) or itemsize(program.dtype(last)) <= NARROW


def _host(program: Program, number: Ints, op: int) -> int:
    """The fusion that computes what an op makes: its own, or that of what first reads it."""
    starts, uses = program.readers
    for _ in range(LONGEST):
        values = program.values_of(op)
        if number[op] >= 0 or not values or starts[values[0]] == starts[values[0] + 1]:
            break
        op = program.user(int(uses[starts[values[0]]]))
    return int(number[op])
