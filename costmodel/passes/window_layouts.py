"""What lookups take whole: the dimensions that can fill the columns of tiles.

A TPU looks up windows one after another, and adds them up so. Of a row the last dimension fills
columns, and of a window of several dimensions the two that are padded least: where `x[:, places]`
takes lines of images with 3 channels, these are pixels and examples. Windows lie so where the table
does in which they are looked up, or to which they are added.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.passes.scatter_expander import GATHER, INDICES, OPERANDS, SCATTER
from toast.costmodel.program.sharding_units import Layouts


class Windows(NamedTuple):
    """Of a gather, or of a scatter into one tensor: the uses of the table and of the windows.

    A gather makes its windows (`use` -1). `names` are those of the dimensions of windows, `whole`
    those that it takes whole.
    """

    op: int
    table: int
    use: int
    names: list[int]
    whole: set[int]


def windows_of(program: Program) -> list[Windows]:
    """All lookups and sums of windows; those of single numbers are none."""
    found = []
    for op in program.ops_named(GATHER, SCATTER):
        uses, gathers = program.uses_of(op), program.kind(op) == GATHER
        if not gathers and len(uses) != OPERANDS:
            continue
        made = program.values_of(op)[0]
        names = program.def_names(made) if gathers else program.use_names(uses[-1])
        placed = {*program.use_names(uses[INDICES]).tolist()} - {-1}
        whole = {*names.tolist()} - placed
        if whole:
            found.append(Windows(op, uses[0], -1 if gathers else uses[-1], names.tolist(), whole))
    return found


def column_rows(program: Program, layouts: Layouts) -> Ints:
    """For each tensor its dimensions that can fill columns where it lies row by row, as bits.

    Of most tensors that is the last one.
    """
    rows = [_bits([len(dims) - 1] if dims else []) for _, dims in layouts.tensors]
    for one in windows_of(program):
        own = _bits(dim for dim, name in enumerate(one.names) if name in one.whole)
        names = program.use_names(one.table).tolist()
        table = _bits(dim for dim, name in enumerate(names) if name >= 0 and name in one.whole)
        for tensor in _moved(program, layouts, one):
            rows[tensor] = own
        for tensor in _tables(program, layouts, one) if table else ():
            rows[tensor] = table
    return np.array(rows, dtype=np.int64)


def table_rows(program: Program, layouts: Layouts) -> Ints:
    """For each tensor the one in which its windows are looked up, or to which they are added.

    -1 for all others.
    """
    found = np.full(len(layouts.tensors), -1)
    for one in windows_of(program):
        found[_moved(program, layouts, one)] = _tables(program, layouts, one)[-1]
    return found


def _moved(program: Program, layouts: Layouts, one: Windows) -> list[int]:
    """The tensors of windows, as they are stored and as they are wanted or made."""
    if one.use < 0:
        made = program.values_of(one.op)[0]
        return [int(layouts.value_tensor[made]), int(layouts.result_tensor[made])]
    value = program.sources[one.use]
    return [int(layouts.value_tensor[value]), int(layouts.use_tensor[one.use])]


def _tables(program: Program, layouts: Layouts, one: Windows) -> list[int]:
    """The tensors of what has all windows: what is given, and what is made of it."""
    value, made = program.sources[one.table], program.values_of(one.op)[0]
    given = [int(layouts.value_tensor[value]), int(layouts.use_tensor[one.table])]
    if one.use < 0:
        return given
    return [*given, int(layouts.value_tensor[made]), int(layouts.result_tensor[made])]


def _bits(dims: Iterable[int]) -> int:
    return sum(1 << dim for dim in dims)
