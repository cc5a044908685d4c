"""The kernel that puts reductions into the kernels before them; `reductions` says which."""

from __future__ import annotations

from typing import Any, NamedTuple

from toast.analysis.jit import entry, inner
from toast.analysis.program import Ints
from toast.analysis.records import record
from toast.costmodel.passes.fusion_kernel import sort_few
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.op_traits import Role

FUSIBLE, REDUCE = int(Role.FUSIBLE), int(Role.REDUCE)


@record
class Launches(NamedTuple):
    """Fusions whose ops and reads are those of a pool from `X_first` to `X_end`, and may move.

    `alive` are those that no other has taken in; by op `beside` tells whether it runs beside a
    product as a reduction does, `by_row` whether it ends with a row, and `home` is its kernel.
    `passes` is the first that reduced each value; `put` by value are stamps. Contractions stay.
    """

    op_first: Ints
    op_end: Ints
    ops: Ints
    read_first: Ints
    read_end: Ints
    reads: Ints
    dot_start: Ints
    dots: Ints
    alive: Bools
    beside: Bools
    by_row: Bools
    home: Ints
    passes: Ints
    put: Ints


@entry
def merge_into(f: Any, k: Any, ops: int, reads: int, loops: bool, wide: bool) -> bool:
    """Merge reductions in order; the pools are filled up to `ops` and `reads`.

    `loops` tells whether elementwise fusions reduce besides, `wide` whether rows that are no wider
    than their product made them stay as well.

    False where the pools are too short, all undone.
    """
    turn = 0
    for number in range(len(k.alive)):
        if not (k.alive[number] and _is_reduction(k, number)):
            continue
        source = _reduced_value(f, k, number)
        if source < 0:
            continue
        host, before = _maker(f, k, number, source, loops, wide), k.passes[source]
        if host < 0 and _fits(f, k, before, number, source, loops, wide):
            host = before
        if host < 0:
            if before < 0:
                k.passes[source] = number
            continue
        more = k.op_end[host] - k.op_first[host] + k.op_end[number] - k.op_first[number]
        most = k.read_end[host] - k.read_first[host] + k.read_end[number] - k.read_first[number]
        if ops + more > len(k.ops) or reads + most > len(k.reads):
            return False
        turn += 1
        _join(f, k, host, number, ops, reads, turn)
        ops, reads = k.op_end[host], k.read_end[host]
    return True


@inner
def _is_reduction(k: Any, number: int) -> bool:
    found = k.dot_start[number + 1] == k.dot_start[number]
    for n in range(k.op_first[number], k.op_end[number]):
        found &= k.beside[k.ops[n]]
    return bool(found)


@inner
def _takes_in(f: Any, k: Any, number: int, loops: bool) -> bool:
    """Whether a reduction may join: it has products or reductions, or is elementwise (`loops`)."""
    found = True
    for n in range(k.op_first[number], k.op_end[number]):
        role = f.role[k.ops[n]]
        found &= k.beside[k.ops[n]] or role == REDUCE or (loops and role == FUSIBLE)
    return bool(found or k.dot_start[number + 1] > k.dot_start[number])


@inner
def _reduced_value(f: Any, k: Any, number: int) -> int:
    """The stored value of which a reduction reads every element, one at a time; or -1."""
    first = f.source[f.uses[k.ops[k.op_first[number]]]]
    for n in range(k.read_first[number], k.read_end[number]):
        value = f.source[k.reads[n]]
        if f.elements[value] == f.elements[first]:
            return int(value)
    return -1


@inner
def _maker(f: Any, k: Any, number: int, reduced: int, loops: bool, wide: bool) -> int:
    """The last fusion that makes a value of as many elements, and beside which it may run, or -1.

    The gradient of a softmax reads the scores, and is summed as their own gradient is made.
    """
    host, latest = -1, -1
    for n in range(k.read_first[number], k.read_end[number]):
        value = f.source[k.reads[n]]
        maker = f.maker[value]
        alike = f.elements[value] == f.elements[reduced]
        home = k.home[maker]
        if alike and maker > latest and _fits(f, k, home, number, value, loops, wide):
            host, latest = home, maker
    return int(host)


@inner
def _fits(f: Any, k: Any, host: int, number: int, source: int, loops: bool, wide: bool) -> bool:
    """Whether all else that it reads is there before the host runs, or is made in its rows."""
    if host < 0 or host == number or not k.alive[host]:
        return False
    first = k.ops[k.op_first[host]]
    multiplies = k.dot_start[host + 1] > k.dot_start[host]
    if f.trips[first] != f.trips[k.ops[k.op_first[number]]] or not _takes_in(f, k, host, loops):
        return False
    for n in range(k.op_first[host], k.op_end[host]):
        first = min(first, k.ops[n])
    inside, whole, direct, latest = False, True, wide, -1
    for n in range(k.read_first[number], k.read_end[number]):
        maker = f.maker[f.source[k.reads[n]]]
        if maker == f.maker[source]:
            continue
        if k.home[maker] == host:
            inside = True
            whole &= k.by_row[maker]
            direct &= f.source[f.uses[maker]] == source
        else:
            latest = max(latest, maker)
    if inside and not (whole and multiplies and _keeps_rows(f, k, host, source, direct)):
        return False
    return bool(latest < first)


@inner
def _keeps_rows(f: Any, k: Any, host: int, source: int, direct: bool) -> bool:
    """Whether rows stay until they are reduced again.

    Those do that are widened behind a product, and those that are first reduced as it makes them.
    """
    for n in range(k.dot_start[host], k.dot_start[host + 1]):
        if not k.by_row[k.dots[n]]:
            return False
        made = f.values[k.dots[n]]
        if f.width[made] >= f.width[source] and not (direct and made == source):
            return False
    return True


@inner
def _join(f: Any, k: Any, host: int, number: int, ops: int, reads: int, turn: int) -> None:
    """Write both to the ends of the pools, as the host's; what is written inside is not read."""
    op_end, read_end = ops, reads
    for kernel in (host, number):
        for n in range(k.op_first[kernel], k.op_end[kernel]):
            k.ops[op_end] = k.ops[n]
            k.home[k.ops[n]] = host
            op_end += 1
    for kernel in (host, number):
        for n in range(k.read_first[kernel], k.read_end[kernel]):
            value = f.source[k.reads[n]]
            if k.put[value] != turn and k.home[f.maker[value]] != host:
                k.put[value] = turn
                k.reads[read_end] = k.reads[n]
                read_end += 1
    sort_few(k.reads, reads, read_end)
    k.op_first[host], k.op_end[host] = ops, op_end
    k.read_first[host], k.read_end[host] = reads, read_end
    k.alive[number] = False
