"""The kernel that decides which values are fused, op by op; `fusion` says what all this is about.

What computing a fused value needs are lists of uses and of contractions in one pool each, an op's
from its start to its end. All values of an op need the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats, Ints
from toast.analysis.records import record
from toast.costmodel.program.contractions import NARROW
from toast.costmodel.program.dataflow import Flow
from toast.costmodel.program.op_traits import Role

Bools = NDArray[np.bool_]
NOTHING, FUSIBLE, CONTRACTION, UPDATE, OPAQUE = (
    int(role) for role in (Role.NOTHING, Role.FUSIBLE, Role.CONTRACTION, Role.UPDATE, Role.OPAQUE)
)


@record
class FusionGraph(NamedTuple):
    """A program as the kernel reads it: its `flow`, and what fusing asks besides.

    By op `costly` and `cheap` (see `roles`), if it is a `matrix` product, if it is a `lookup` that
    stores its table, if it is computed `once` where that has 16 bits; by use if it reads what is
    stored (`reads_stored`), or a product reads what is `repeated`; by value if it is of `single`
    precision, if it is `stored` behind a contraction. The rest is as in `FusionRules`.
    """

    flow: Flow
    costly: Bools
    cheap: Bools
    matrix: Bools
    reads_stored: Bools
    repeated: Bools
    lookup: Bools
    once: Bools
    single: Bools
    stored: Bools
    fuses_into_dot: bool
    repeats_costly: bool


@record
class Needs(NamedTuple):
    """What the kernel finds: `written` by value, if an op's fusion is a `root`, the rest by op.

    What is written `for_lookups` by value is computed again in all other readers. Uses of stored
    values [`use_start`, `use_end`) in the pool `use`, contractions in `dot`; `expensive` where
    costly arithmetic is inside, `once` where some of it is computed once, `light` where there is
    none, `cheap` where the rest is. The stamps are working arrays: by use, by value, by op.
    """

    written: Bools
    for_lookups: Bools
    root: Bools
    use_start: Ints
    use_end: Ints
    use: Ints
    dot_start: Ints
    dot_end: Ints
    dot: Ints
    expensive: Bools
    once: Bools
    light: Bools
    cheap: Bools
    use_stamp: Ints
    value_stamp: Ints
    dot_stamp: Ints


@inner
def sort_few(numbers: Ints, first: int, end: int) -> None:
    """Sort the few numbers of [first, end), by insertion."""
    for k in range(first + 1, end):
        number, place = numbers[k], k
        while place > first and numbers[place - 1] > number:
            numbers[place] = numbers[place - 1]
            place -= 1
        numbers[place] = number


@inner
def _add_use(n: Any, op: int, use: int) -> None:
    if n.use_stamp[use] != op:
        n.use_stamp[use] = op
        n.use[n.use_end[op]] = use
        n.use_end[op] += 1


@inner
def _add_dot(n: Any, op: int, dot: int) -> None:
    if n.dot_stamp[dot] != op:
        n.dot_stamp[dot] = op
        n.dot[n.dot_end[op]] = dot
        n.dot_end[op] += 1


@inner
def _is_table(g: Any, use: int) -> bool:
    """Whether a use is the table in which a lookup finds rows."""
    op = g.flow.user[use]
    return bool(g.lookup[op] and use == g.flow.uses[op])


@inner
def _is_read(g: Any, n: Any, use: int) -> bool:
    """Whether the op of a use reads the value as it is stored."""
    value = g.flow.source[use]
    return bool(n.written[value] and (_is_table(g, use) or not n.for_lookups[value]))


@inner
def _room(g: Any, n: Any, op: int) -> bool:
    """Whether the pools have room for all that an op may need."""
    uses, dots = n.use_start[op], n.dot_start[op] + 1
    for use in range(g.flow.uses[op], g.flow.uses[op + 1]):
        maker = g.flow.maker[g.flow.source[use]]
        uses += 1
        if not _is_read(g, n, use):
            uses += n.use_end[maker] - n.use_start[maker]
            dots += n.dot_end[maker] - n.dot_start[maker]
    return bool(uses <= len(n.use) and dots <= len(n.dot))


@inner
def _gather(g: Any, n: Any, op: int) -> None:
    """What the op needs: of stored operands their uses, of fused ones what those need."""
    n.expensive[op], n.once[op] = g.costly[op], g.once[op]
    n.light[op], n.cheap[op] = g.flow.layout[op], g.cheap[op]
    if g.flow.role[op] == CONTRACTION:
        _add_dot(n, op, op)
    for use in range(g.flow.uses[op], g.flow.uses[op + 1]):
        value = g.flow.source[use]
        if _is_read(g, n, use):
            _add_use(n, op, use)
            continue
        maker = g.flow.maker[value]
        for k in range(n.use_start[maker], n.use_end[maker]):
            _add_use(n, op, n.use[k])
        for k in range(n.dot_start[maker], n.dot_end[maker]):
            _add_dot(n, op, n.dot[k])
        n.expensive[op] |= n.expensive[maker]
        n.once[op] |= n.once[maker]
        n.light[op] &= n.light[maker]
        n.cheap[op] &= n.cheap[maker]
    sort_few(n.use, n.use_start[op], n.use_end[op])
    sort_few(n.dot, n.dot_start[op], n.dot_end[op])


@inner
def _is_repeated(g: Any, n: Any, value: int) -> bool:
    """Whether a GPU's products compute an operand inside: an f32, cheaply, of one tensor.

    Vectors that are spread over it may come to that. A tensor counts from half of the operand's
    bytes on, as it may have 16 bits where the operand has 32.
    """
    op, own, large = g.flow.maker[value], g.flow.bytes[value], -1
    if not n.cheap[op] or not g.single[value]:
        return False
    for k in range(n.use_start[op], n.use_end[op]):
        source = g.flow.source[n.use[k]]
        if 2.0 * g.flow.bytes[source] >= own and source != large:
            if large >= 0 or g.flow.bytes[source] > own:
                return False
            large = source
    return True


@inner
def _absorbs(g: Any, n: Any, value: int, use: int) -> bool:
    """Whether the op of a use can compute the value inside itself.

    Not inside a loop that does not make it, and not where it is the buffer that the op updates.
    """
    op, home = g.flow.user[use], g.flow.maker[value]
    kind = g.flow.role[op]
    if kind in (NOTHING, OPAQUE) or g.flow.trips[op] > g.flow.trips[home]:
        return False
    if g.repeated[use] or (g.reads_stored[use] and not n.light[home]):
        return False
    if kind == CONTRACTION and not g.fuses_into_dot and not n.light[home]:
        return bool(g.matrix[op] and _is_repeated(g, n, value))
    return bool(kind != UPDATE or use != g.flow.uses[op])


@inner
def _cheaper_again(g: Any, n: Any, value: int, users: int) -> bool:
    """Whether reading the inputs once for each user moves no more than storing the value.

    Of an input with more elements it reads as many as it has.
    """
    op, own, read = g.flow.maker[value], g.flow.bytes[value], 0.0
    for k in range(n.use_start[op], n.use_end[op]):
        source = g.flow.source[n.use[k]]
        if n.value_stamp[source] != value:
            n.value_stamp[source] = value
            elements = min(g.flow.elements[source], g.flow.elements[value])
            read += elements * g.flow.width[source]
    return bool(users * read <= read + (users + 1) * own)


@inner
def _fuses(g: Any, n: Any, value: int) -> bool:
    """Whether all users of a value, but for lookups in it, compute it inside themselves."""
    op = g.flow.maker[value]
    if (g.flow.role[op] != FUSIBLE and g.flow.role[op] != CONTRACTION) or g.stored[value]:
        return False
    first, end = g.flow.reader_start[value], g.flow.reader_start[value + 1]
    users, last = 0, -1
    for k in range(first, end):
        if _is_table(g, g.flow.reader[k]):
            continue
        if not _absorbs(g, n, value, g.flow.reader[k]):
            return False
        users += g.flow.user[g.flow.reader[k]] != last
        last = g.flow.user[g.flow.reader[k]]
    if users == 0 or (n.once[op] and users > 1 and g.flow.width[value] == NARROW):
        return False
    if n.dot_start[op] < n.dot_end[op]:
        return True
    if n.expensive[op] and end - first > 1 and not g.repeats_costly:
        return False
    return bool(_cheaper_again(g, n, value, users))


@inner
def _is_looked_up(g: Any, value: int) -> bool:
    """Whether a value is no constant, and rows of it are looked up."""
    found = False
    for k in range(g.flow.reader_start[value], g.flow.reader_start[value + 1]):
        found |= _is_table(g, g.flow.reader[k])
    return bool(found and not g.flow.constant[value])


@inner
def _is_copied(g: Any, n: Any, value: int) -> bool:
    """Whether none of what a table is made of takes more bytes to read than the table does."""
    op = g.flow.maker[value]
    for k in range(n.use_start[op], n.use_end[op]):
        source = g.flow.source[n.use[k]]
        elements = min(g.flow.elements[source], g.flow.elements[value])
        if elements * g.flow.width[source] > g.flow.bytes[value]:
            return False
    return bool(n.dot_start[op] == n.dot_end[op])


@entry
def fuse_values(g: Any, n: Any) -> bool:
    """Decide op by op what is written; False where the pools are too short, all undone."""
    n.use_stamp[:] = -1
    n.value_stamp[:] = -1
    n.dot_stamp[:] = -1
    uses, dots = 0, 0
    for op in range(len(g.flow.role)):
        n.use_start[op] = n.use_end[op] = uses
        n.dot_start[op] = n.dot_end[op] = dots
        if not _room(g, n, op):
            return False
        _gather(g, n, op)
        uses, dots = n.use_end[op], n.dot_end[op]
        n.root[op] = g.flow.role[op] == NOTHING
        for value in range(g.flow.values[op], g.flow.values[op + 1]):
            table = _is_looked_up(g, value)
            fused = g.flow.constant[value] or _fuses(g, n, value)
            n.for_lookups[value] = table and fused and _is_copied(g, n, value)
            n.written[value] = table or not fused
            n.root[op] |= n.written[value]
    return True


@entry
def spread_spans(
    uses: Ints, source: Ints, fused: Bools, stored: Bools, position: Ints, low: Ints, high: Ints
) -> None:
    """Of each op the earliest (`low`) and the latest position of the fusions that compute it.

    `uses` are starts by op; by use `source` is the op that makes what it takes and `fused` tells
    whether that is not written; `stored` are ops that write, `position` when an op's fusion runs.
    """
    for op in range(len(uses) - 2, -1, -1):
        if stored[op] or low[op] > high[op]:
            low[op] = min(low[op], position[op])
            high[op] = max(high[op], position[op])
        for use in range(uses[op], uses[op + 1]):
            if fused[use]:
                low[source[use]] = min(low[source[use]], low[op])
                high[source[use]] = max(high[source[use]], high[op])


@entry
def read_inside(
    operands: Ints, uses: Ints, source: Ints, maker: Ints, ends: Bools, constant: Bools,
    elements: Floats, size: Floats, stamp: Ints, stack: Ints, spent: Floats,
) -> None:  # fmt: skip
    """Bytes that a product reads for each of its operands: `size` of what they are computed of.

    That goes back as far as values that are `ends`. What has more elements than the operand is
    read for as many as that has. `stamp` (by value, -1) and `stack` are working arrays.
    """
    for k in range(len(operands)):
        own = elements[operands[k]]
        stack[0], depth = operands[k], 1
        while depth > 0:
            depth -= 1
            value = stack[depth]
            if stamp[value] == k or constant[value]:
                continue
            stamp[value], op = k, maker[value]
            if ends[value]:
                spent[k] += size[value] * min(own / max(elements[value], 1.0), 1.0)
                continue
            for use in range(uses[op], uses[op + 1]):
                stack[depth] = source[use]
                depth += 1
