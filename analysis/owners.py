"""Finds the argument that each op belongs to; the kernel goes from op to op.

An op belongs to the chief argument that it reads, perhaps in another form. An op that reads none
belongs to the argument whose update it contributes to, else to the argument of the operand that was
made last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toast.analysis.jit import entry, inner
from toast.analysis.program import ARGUMENT, LOOP_BEGIN, LOOP_END, Ints, Program
from toast.analysis.records import record

Bools = NDArray[np.bool_]


@record
class Reading(NamedTuple):
    """A program as the kernel reads it.

    By op starts of `uses` and `values`, if it passes values on (`passing`), is `elementwise`, holds
    what a loop carries (`carrying`), or begins one; by use its `source`; by value `maker`, `shape`
    and `elements`; by argument its `value` and if it is `state`, that results replace.
    """

    uses: Ints
    values: Ints
    passing: Bools
    elementwise: Bools
    carrying: Bools
    begins: Bools
    source: Ints
    maker: Ints
    shape: Ints
    elements: Ints
    value: Ints
    state: Bools


def owners(
    program: Program, state: Bools, passing: frozenset[str], elementwise: frozenset[str]
) -> tuple[Ints, Ints]:
    """The argument (by number) of each op, and the one that each value is a form of; or -1.

    `state` are arguments that results replace; ops named `passing` pass values on in another form,
    `elementwise` ones combine updates.
    """
    reading = Reading(
        uses=program.op_uses,
        values=program.op_values,
        passing=_named(program, passing),
        elementwise=_named(program, elementwise),
        carrying=_named(program, frozenset({ARGUMENT, LOOP_BEGIN, LOOP_END})),
        begins=_named(program, frozenset({LOOP_BEGIN})),
        source=program.use_value,
        maker=program.value_op,
        shape=program.value_shape,
        elements=np.array(program.elements, dtype=np.int64),
        value=np.array([argument.value for argument in program.arguments], dtype=np.int64),
        state=state,
    )
    owner, held, target = (np.full(n, -1) for n in (program.ops, program.values, program.values))
    held[reading.value] = np.arange(len(reading.value))
    _own(reading, owner, held, target)
    return owner, held


def _named(program: Program, names: frozenset[str]) -> Bools:
    return np.array([name in names for name in program.names], dtype=np.bool_)[program.op_name]


@entry
def _own(r: Any, owner: Ints, held: Ints, target: Ints) -> None:
    ops = len(owner)
    for op in range(ops):
        if r.carrying[op]:
            _carry(r, op, held)
        else:
            owner[op] = _chief(r, op, held)
            first = r.uses[op]
            if r.passing[op] and r.uses[op + 1] > first and held[r.source[first]] >= 0:
                for value in range(r.values[op], r.values[op + 1]):
                    held[value] = held[r.source[first]]
    for op in range(ops - 1, -1, -1):
        _take_back(r, op, owner, held, target)
    for op in range(ops):
        if owner[op] < 0:
            last = op
            for use in range(r.uses[op], r.uses[op + 1]):
                home = r.maker[r.source[use]]
                if owner[home] >= 0 and (home > last or last == op):
                    last = home
            owner[op] = owner[last]


@inner
def _carry(r: Any, op: int, held: Ints) -> None:
    """The values of a loop's body hold the arguments that it was begun with."""
    operands = r.uses[op + 1] - r.uses[op]
    if not r.begins[op] or operands == 0:
        return
    for place in range(r.values[op + 1] - r.values[op]):
        source = r.source[r.uses[op] + place % operands]
        if held[source] >= 0:
            held[r.values[op] + place] = held[source]


@inner
def _chief(r: Any, op: int, held: Ints) -> int:
    """The argument that an op reads: of several one of state, then the largest, then the first."""
    found = -1
    for use in range(r.uses[op], r.uses[op + 1]):
        one = held[r.source[use]]
        if one < 0 or r.elements[r.value[one]] <= 1:
            continue
        if found < 0 or r.state[one] > r.state[found]:
            found = one
        else:
            larger = r.elements[r.value[one]] > r.elements[r.value[found]]
            found = one if larger and r.state[one] == r.state[found] else found
    return int(found)


@inner
def _take_back(r: Any, op: int, owner: Ints, held: Ints, target: Ints) -> None:
    """What ends, through ops that keep its elements, in the update of state is of that.

    `target` is the argument in whose update each value ends, or -1.
    """
    own = -1
    for value in range(r.values[op], r.values[op + 1]):
        if own < 0:
            own = target[value]
    if own >= 0 and not (owner[op] >= 0 and r.state[owner[op]]):
        owner[op] = own
    updates = r.elementwise[op] and owner[op] >= 0 and r.state[owner[op]]
    if not updates and not (own >= 0 and (r.elementwise[op] or r.passing[op])):
        return
    made = r.values[op]
    alone = r.values[op + 1] - made == 1
    for use in range(r.uses[op], r.uses[op + 1]):
        value, found = r.source[use], -1
        if updates and held[value] < 0 and r.shape[r.value[owner[op]]] == r.shape[value]:
            found = owner[op]
        if found < 0 and own >= 0 and alone and r.elements[made] == r.elements[value]:
            found = own
        if found >= 0 and target[value] < 0:
            target[value] = found
