"""Sums over devices that XLA sends together with others over the same axes.

Sums of which nothing that is multiplied depends have time until the end of the step, or of a
loop's run: gradients of weights, mostly. XLA combines them, so that a device waits for the network
once and not for each of them.

XLA combines sums that products wait for, too, where they are made at one *moment*: sums of one type
that follow each other, of which none is made of another. Such are the mean of a batch norm and the
mean of the squares, or what queries, keys and values add up.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from toast.analysis.jit import entry
from toast.analysis.program import LOOP_BEGIN, LOOP_END, Floats, Ints, Program
from toast.costmodel.compilers.rules import AllReduceCombinerRules
from toast.costmodel.program.arrays import floats
from toast.costmodel.program.buffers import loop_slots
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.distinct import distinct_rows
from toast.costmodel.program.op_traits import Role, role

ALONE = -1
"""The loop, and the kind of moment, of an op whose sums are sent by themselves."""


def combine_sums(program: Program, rules: AllReduceCombinerRules) -> tuple[Ints, Floats]:
    """For each op the loop in whose runs its sums are sent with others, or `ALONE`.

    The program itself is the first of the loops, and an inner loop is not part of an outer one.
    Also how often each of them runs.
    """
    loop, runs = loops(program)
    if not rules.combines:
        return np.full(program.ops, ALONE), runs
    early = np.zeros(program.ops, dtype=np.bool_)
    early[program.value_op[_needed(program)]] = True
    return np.where(early, ALONE, loop), runs


def _needed(program: Program) -> Bools:
    """For each value whether a product or a convolution depends on it."""
    multiplying = frozenset(name for name in program.names if role(name) is Role.CONTRACTION)
    ends = named(program, frozenset({LOOP_END}))
    carries = ends | named(program, frozenset({LOOP_BEGIN}))
    columns = program.op_uses, program.use_value, program.op_values
    slots = np.array(
        [(slot.yielded, slot.condition, slot.body) for slot in loop_slots(program)], dtype=np.int64
    ).reshape(-1, 3)
    found = np.zeros(program.values, dtype=np.bool_)
    while True:
        _spread(*columns, named(program, multiplying), carries, ends, found)
        again = found[slots[:, 1:]].any(axis=1) & ~found[slots[:, 0]]
        if not again.any():
            return found
        found[slots[again, 0]] = True


@entry
def _spread(
    op_uses: Ints, use_value: Ints, op_values: Ints, multiplies: Bools, carries: Bools, ends: Bools,
    found: Bools,
) -> None:  # fmt: skip
    """Mark what is needed for what is marked, and for products, from the end of the program.

    What a loop carries is needed for itself alone: at its begin and end a place for each.
    """
    for op in range(len(multiplies) - 1, -1, -1):
        first, last = op_uses[op], op_uses[op + 1]
        made, end = op_values[op], op_values[op + 1]
        if carries[op]:
            places = end - made if ends[op] else last - first
            for value in range(made, end):
                if found[value]:
                    found[use_value[first + (value - made) % places]] = True
            continue
        wanted = multiplies[op]
        for value in range(made, end):
            wanted |= found[value]
        if wanted:
            for use in range(first, last):
                found[use_value[use]] = True


def loops(program: Program) -> tuple[Ints, Floats]:
    """The loop in whose runs each op is made, and how often each loop runs.

    It is the innermost that the op stands in, or one around that, which the op moved out to.
    """
    loop, runs, outer, around = np.zeros(program.ops, dtype=np.int64), [1.0], [0], [0]
    marks = program.ops_named(LOOP_BEGIN, LOOP_END)
    for op, after in pairwise([*marks, program.ops]):
        if program.kind(op) == LOOP_BEGIN:
            around.append(outer[-1])
            outer.append(len(runs))
            runs.append(float(program.op_trips[op + 1]))
        else:
            outer.pop()
        loop[op + 1 : after] = outer[-1]
    times, parent = np.array(runs), np.array(around)
    while (moved := (loop > 0) & (program.op_trips < times[loop])).any():
        loop[moved] = parent[loop[moved]]
    return loop, times


def kinds_of_moments(
    program: Program, ops: Ints, waiting: Bools, alike: Ints
) -> tuple[Ints, Floats]:
    """The kind of moment at which each of `ops` is sent, or `ALONE`; how many there are of each.

    Those are sent that are `waiting`. Moments are of one kind where their sums are `alike` (equal
    numbers), as those of equal layers are.
    """
    summing = np.zeros(program.ops, dtype=np.bool_)
    summing[ops[waiting]] = True
    dtype = program.value_type[program.op_values[ops]]
    message, _ = distinct_rows(_moments(program, summing)[ops], dtype)
    order = np.lexsort((alike, message))
    order = order[waiting[order]]
    found, many = np.full(len(ops), ALONE), list[float]()
    kinds: dict[tuple[int, ...], int] = {}
    for members in np.split(order, np.flatnonzero(np.diff(message[order])) + 1):
        if len(members) < 2:
            continue
        kind = kinds.setdefault(tuple(alike[members].tolist()), len(kinds))
        many += [0.0] * (kind == len(many))
        many[kind] += float(program.op_trips[ops[members[0]]])
        found[members] = kind
    return found, floats(many)


def _moments(program: Program, summing: Bools) -> Ints:
    """By op the number of the moment at which what is `summing` is sent, -1 for all others."""
    found, bounds = np.full(program.ops, -1), np.zeros(program.ops, dtype=np.bool_)
    bounds[list(program.ops_named(LOOP_BEGIN, LOOP_END))] = True
    columns = program.op_uses, program.use_value, program.op_values
    _number(*columns, summing, bounds, np.full(program.values, -1), found)
    return found


@entry
def _number(
    op_uses: Ints, use_value: Ints, op_values: Ints, summing: Bools, bounds: Bools, made_of: Ints,
    found: Ints,
) -> None:  # fmt: skip
    """Begin a moment at the `bounds` of loops, and where a sum is made of one of the moment before.

    `made_of` is by value the last moment of whose sums it is made.
    """
    now = 0
    for op in range(len(summing)):
        depends = False
        for use in range(op_uses[op], op_uses[op + 1]):
            depends |= made_of[use_value[use]] == now
        if bounds[op] or (summing[op] and depends):
            now, depends = now + 1, False
        if summing[op]:
            found[op], depends = now, True
        if depends:
            for value in range(op_values[op], op_values[op + 1]):
                made_of[value] = now
