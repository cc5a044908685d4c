"""Fusions with several results: elementwise roots of one shape that feed each other, or read alike.

XLA computes an optimizer's two moments and its update in one pass over memory; so do we.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from toast.analysis.jit import entry, inner
from toast.analysis.program import Ints
from toast.analysis.records import record
from toast.costmodel.passes.fusion_kernel import sort_few
from toast.costmodel.program.dataflow import Bools


@record
class Roots(NamedTuple):
    """Ops that write, in order, with what each has from `X_start` on.

    `reads` are the uses that it reads memory through, `dots` the contractions inside it; it is a
    `loop` where it is elementwise, without one. `number` is that of an op among the roots, or -1.
    """

    op: Ints
    read_start: Ints
    reads: Ints
    dot_start: Ints
    dots: Ints
    loop: Bools
    number: Ints


@record
class Merging(NamedTuple):
    """Working arrays: groups of roots, and stamps by op (`inside`, `seen`) and value (`read`).

    By root its `group` and what comes `after` it there; by group, whose number is that of its first
    root, the `head` (-1: none) and the `tail`. By value the last root that reads it, its `reader`.
    """

    group: Ints
    after: Ints
    head: Ints
    tail: Ints
    inside: Ints
    seen: Ints
    stack: Ints
    read: Ints
    reader: Ints


@record
class Merged(NamedTuple):
    """The fusions: ops, uses read and contractions of each from `X_start` on."""

    op_start: Ints
    ops: Ints
    read_start: Ints
    reads: Ints
    dot_start: Ints
    dots: Ints


@entry
def merge(f: Any, r: Any, m: Any, out: Any, readers: bool) -> int:
    """Join each loop with those that it reads, where nothing outside lies between.

    Then with those that read the same value of its shape (`readers`). Returns how many fusions
    there are.
    """
    count, turn = len(r.op), 0
    for n in range(count):
        m.group[n] = m.head[n] = m.tail[n] = n
        m.after[n] = -1
    for n in range(count):
        if r.loop[n]:
            for k in range(r.read_start[n], r.read_start[n + 1]):
                source = f.maker[f.source[r.reads[k]]]
                other = r.number[source]
                if other >= 0 and r.loop[other] and _alike(f, source, r.op[n]):
                    turn += 1
                    _join(f, r, m, m.group[other], m.group[n], turn)
    turn = _join_readers(f, r, m, turn) if readers else turn
    fusions = 0
    for n in range(count):
        if m.head[n] >= 0:
            turn += 1
            _write(f, r, m, n, turn, out, fusions)
            fusions += 1
    return fusions


@inner
def _join_readers(f: Any, r: Any, m: Any, turn: int) -> int:
    """Join loops that read one value, each with the last before it; the turns that are taken."""
    for n in range(len(r.op)):
        if r.loop[n]:
            for k in range(r.read_start[n], r.read_start[n + 1]):
                value = f.source[r.reads[k]]
                if f.shape[value] != f.shape[f.values[r.op[n]]]:
                    continue
                other = m.reader[value]
                m.reader[value] = n
                if other >= 0 and _alike(f, r.op[other], r.op[n]):
                    turn += 1
                    _join(f, r, m, m.group[other], m.group[n], turn)
    return turn


@inner
def _alike(f: Any, one: int, other: int) -> bool:
    same = f.shape[f.values[one]] == f.shape[f.values[other]]
    return bool(same and f.trips[one] == f.trips[other])


@inner
def _join(f: Any, r: Any, m: Any, left: int, right: int, turn: int) -> None:
    """Only where no input from outside is made of what a member writes."""
    if left == right:
        return
    low = r.op[min(left, right)]
    for group in (left, right):
        n = m.head[group]
        while n >= 0:
            m.inside[r.op[n]] = turn
            low = min(low, r.op[n])
            n = m.after[n]
    if _depends(f, r, m, left, right, low, turn):
        return
    keep = min(left, right)
    n = m.head[right]
    m.after[m.tail[left]] = n
    head, tail = m.head[left], m.tail[right]
    m.head[left] = m.head[right] = -1
    m.head[keep], m.tail[keep] = head, tail
    while head >= 0:
        m.group[head] = keep
        head = m.after[head]


@inner
def _depends(f: Any, r: Any, m: Any, left: int, right: int, low: int, turn: int) -> bool:
    """Whether something that members read from outside is computed, however far back, from one."""
    depth = 0
    for group in (left, right):
        n = m.head[group]
        while n >= 0:
            for k in range(r.read_start[n], r.read_start[n + 1]):
                depth = _push(m, f.maker[f.source[r.reads[k]]], low, turn, depth)
            n = m.after[n]
    while depth > 0:
        depth -= 1
        op = m.stack[depth]
        for use in range(f.uses[op], f.uses[op + 1]):
            source = f.maker[f.source[use]]
            if m.inside[source] == turn:
                return True
            depth = _push(m, source, low, turn, depth)
    return False


@inner
def _push(m: Any, op: int, low: int, turn: int, depth: int) -> int:
    if op <= low or m.inside[op] == turn or m.seen[op] == turn:
        return depth
    m.seen[op] = turn
    m.stack[depth] = op
    return depth + 1


@inner
def _write(f: Any, r: Any, m: Any, group: int, turn: int, out: Any, number: int) -> None:
    """What one member writes for another is not read from memory.

    Of what is larger than a loop makes it reads a part each time.
    """
    ops, reads, dots = out.op_start[number], out.read_start[number], out.dot_start[number]
    n = m.head[group]
    while n >= 0:
        out.ops[ops] = r.op[n]
        m.inside[r.op[n]] = turn
        ops += 1
        n = m.after[n]
    n = m.head[group]
    while n >= 0:
        for k in range(r.read_start[n], r.read_start[n + 1]):
            value = f.source[r.reads[k]]
            in_parts = r.loop[n] and f.elements[value] > f.elements[f.values[r.op[n]]]
            if m.read[value] != turn or in_parts:
                m.read[value] = turn
                if m.inside[f.maker[value]] != turn:
                    out.reads[reads] = r.reads[k]
                    reads += 1
        for k in range(r.dot_start[n], r.dot_start[n + 1]):
            if m.seen[r.dots[k]] != turn:
                m.seen[r.dots[k]] = turn
                out.dots[dots] = r.dots[k]
                dots += 1
        n = m.after[n]
    sort_few(out.reads, out.read_start[number], reads)
    sort_few(out.dots, out.dot_start[number], dots)
    out.op_start[number + 1], out.read_start[number + 1] = ops, reads
    out.dot_start[number + 1] = dots
