"""Tables in which rows are looked up and added up: they lie row by row, and are copied to lie so.

An argument lies as it fills tiles best, which for narrow rows is by columns. A TPU looks up and
adds up whole rows, so it copies such an argument to rows first, and what it adds up, unless that
was made in rows. The sum of rows lies so too. An update computes in rows where most of what it
reads lies so, the table and the sum: the rest is copied there, and the results are copied back.
Where it reads two arguments besides the table, as Adam does, the sum is copied to columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.passes.fusion import SCATTERS, Fusion
from toast.costmodel.passes.output_fusion import elementwise
from toast.costmodel.program.arrays import flags, spans
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.lookups import NO_ROWS, ROWS, TABLE, looked_up
from toast.costmodel.program.op_traits import Role

ROUNDS = 8
"""Through at most so many fusions, one behind another, an update passes on how its sum lies."""
TILE_ROWS = 8
"""Rows of a tile of 32 bits."""
MOST_OTHERS = 1
"""An update that reads more arguments besides tables computes in columns."""
Span = tuple[int, int, int]
"""A value with its first and last position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayouts:
    """What lies row by row, as far as it is computed with.

    By fusion how all that it moves lies (`moving`, as in `lookups`), and by its number the values
    that are copied into rows or out of them, for it or behind it (`turned`), and the tables that
    are copied before a lookup; and what is copied into rows to be added up (`added`, by its use).
    `held` are copies in rows, `columns` those of sums. Of tables of which products alone take rows,
    the copies are `rounded`.
    """

    moving: Ints
    turned: dict[int, list[int]] = field(default_factory=dict)
    tables: dict[int, list[int]] = field(default_factory=dict)
    added: dict[int, int] = field(default_factory=dict)
    held: list[Span] = field(default_factory=list)
    columns: list[Span] = field(default_factory=list)
    rounded: set[int] = field(default_factory=set)


def row_layouts(program: Program, fusion: Fusion) -> RowLayouts:
    """What lies row by row on a TPU; nothing elsewhere."""
    launched = fusion.launched
    if not fusion.profile.layout_assignment.turns_tables:
        return RowLayouts(moving=np.full(len(launched), NO_ROWS))
    single, found = np.diff(launched.op_start) == 1, looked_up(program)
    moving = np.where(single & found[launched.first_op], ROWS, NO_ROWS)
    moving[single & adds_rows(program, fusion)[launched.first_op]] = TABLE
    tables = _tables(program, fusion, single & found[launched.first_op])
    updates, by_row, lying = _updates(program, fusion, tables)
    turned = dict[int, list[int]]()
    until, held, columns = dict[int, int](), list[Span](), list[Span]()
    for number in updates.tolist():
        given, made = _exchanged(program, fusion, number)
        others = [value for value in given if value not in tables]
        begin, end = _span(program, fusion, number, lying)
        if not by_row[number]:
            turned[number] = _summed(program, fusion, number, lying)
            columns += [(value, begin, end) for value in turned[number]]
            continue
        moving[number] = TABLE
        turned[number] = given + made
        until |= dict.fromkeys(given, end)
        held += [(value, begin, end) for value in others]
    return RowLayouts(
        moving=moving,
        turned=turned,
        tables={number: [table] for table, number in tables.items() if table not in until},
        added=_added(program, fusion, moving),
        held=held + _held(program, fusion, found, until),
        columns=columns,
        rounded=_rounded(program, fusion, found) - set(until),
    )


def _added(program: Program, fusion: Fusion, moving: Ints) -> dict[int, int]:
    """By fusion the use of what it adds up, where that has to be copied into rows.

    It has to be where no fusion made it in rows, and where each example has several rows that do
    not fill tiles.
    """
    launched = fusion.launched
    if not fusion.profile.layout_assignment.turns_added:
        return {}
    by_row = np.zeros(program.ops, dtype=np.bool_)
    by_row[launched.ops] = (moving != NO_ROWS)[launched.rows(launched.op_start)]
    found = {}
    for number in np.flatnonzero(moving == TABLE).tolist():
        op = int(launched.first_op[number])
        if program.kind(op) in SCATTERS:
            use = program.uses_of(op)[-1]
            *examples, rows, _ = (1, 1, *program.shape(program.sources[use]))
            apart = math.prod(examples) > 1 and rows % TILE_ROWS > 0
            if apart or not by_row[program.makers[program.sources[use]]]:
                found[number] = use
    return found


def adds_rows(program: Program, fusion: Fusion) -> Bools:
    """For each op whether it adds up rows."""
    found: Bools = (fusion.flow.role == Role.UPDATE) & named(program, SCATTERS)
    return found


def _tables(program: Program, fusion: Fusion, lookups: Bools) -> dict[int, int]:
    """Arguments in which rows are looked up outside loops, with the first lookup in each."""
    given = {argument.value for argument in program.arguments}
    found: dict[int, int] = {}
    for number in np.flatnonzero(lookups).tolist():
        op = int(fusion.launched.first_op[number])
        table = _table(program, op)
        if table in given and program.op_trips[op] == 1:
            found.setdefault(table, number)
    return found


def _table(program: Program, op: int) -> int:
    return int(program.sources[program.uses_of(op)[0]])


def _updates(program: Program, fusion: Fusion, tables: dict[int, int]) -> tuple[Ints, Bools, Bools]:
    """Elementwise fusions of sums of rows, and for each fusion if it would compute in rows.

    For each value if it is such a sum, or made of one in rows. Rows of one column are a vector.
    """
    launched = fusion.launched
    reader, read = launched.rows(launched.read_start), program.use_value[launched.reads]
    counts = np.diff(program.op_values)[launched.ops]
    made = spans(program.op_values[launched.ops], counts)
    maker = np.repeat(launched.rows(launched.op_start), counts)
    looping, own = elementwise(fusion.flow, launched), np.full(len(launched), -1)
    own[looping] = program.value_shape[program.op_values[launched.first_op[looping]]]
    alike = program.value_shape[read] == own[reader]
    others = flags(program.values, [argument.value for argument in program.arguments])
    others[list(tables)] = False
    counted = np.bincount(reader[alike & others[read]], minlength=len(launched))
    columns = program.of_shapes(lambda shape: shape[-1] if shape else 1, np.int64)
    passing = counted <= MOST_OTHERS
    passing[looping] &= columns[program.op_values[launched.first_op[looping]]] > 1
    sums = program.op_values[:-1][adds_rows(program, fusion) | looked_up(program)]
    lying, updating = flags(program.values, sums.tolist()), looping
    for _ in range(ROUNDS):
        updating = looping & flags(len(launched), reader[alike & lying[read]].tolist())
        more = made[(updating & passing)[maker] & (program.value_shape[made] == own[maker])]
        if lying[more].all():
            break
        lying[more] = True
    return np.flatnonzero(updating), passing, lying


def _summed(program: Program, fusion: Fusion, number: int, lying: Bools) -> list[int]:
    """What an update reads that lies in rows."""
    read = {int(program.use_value[use]) for use in fusion.launched[number].reads}
    return sorted(value for value in read if lying[value])


def _span(program: Program, fusion: Fusion, number: int, lying: Bools) -> tuple[int, int]:
    """From when the first sum of rows that an update reads is there, to the update."""
    sums = program.value_op[_summed(program, fusion, number, lying)]
    at, ops = fusion.position, list(fusion.launched[number].ops)
    return int(at[sums].min()), int(at[ops].max())


def _exchanged(program: Program, fusion: Fusion, number: int) -> tuple[list[int], list[int]]:
    """Of its own shape the program's arguments that an update reads, and results that it makes."""
    one = fusion.launched[number]
    shape = program.shape(program.values_of(one.ops[0])[0])
    arguments = {argument.value for argument in program.arguments}
    results = {int(program.use_value[result.use]) for result in program.results}
    read = {int(program.sources[use]) for use in one.reads} & arguments
    made = {value for op in one.ops for value in program.values_of(op)} & results
    return [value for value in sorted(read) if program.shape(value) == shape], sorted(made)


def _rounded(program: Program, fusion: Fusion, lookups: Bools) -> set[int]:
    """The tables of lookups whose rows are stored in 16 bits, all of them."""
    found = dict[bool, set[int]]({True: set(), False: set()})
    for op in np.flatnonzero(lookups).tolist():
        narrow = fusion.narrow[program.values_of(op)[0]]
        found[bool(narrow)].add(_table(program, op))
    return found[True] - found[False]


def _held(program: Program, fusion: Fusion, lookups: Bools, updated: dict[int, int]) -> list[Span]:
    """Copies of the tables of lookups: for the lookup alone, or until their update."""
    given, found = {argument.value for argument in program.arguments}, list[Span]()
    for op in np.flatnonzero(lookups).tolist():
        table, at = _table(program, op), int(fusion.position[op])
        if table in given:
            found.append((table, at, max(at, updated.get(table, at))))
    return found
