"""Products that run as one with the elementwise fusion that alone reads them.

It runs as their blocks are made, however often it reads them, as the gradient of an activation
does. So does an update, as Adam's, inside which the gradient is made.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.program.dataflow import Bools, Flow, named
from toast.costmodel.program.launches import LaunchedFusions
from toast.costmodel.program.op_traits import Role

TAKING_PARTS = frozenset({"stablehlo.slice", "stablehlo.pad"})


def made_by_products(program: Program, roots: LaunchedFusions) -> Bools:
    """For each op whether it writes what is computed of one product."""
    found = np.zeros(program.ops, dtype=np.bool_)
    found[roots.ops[np.diff(roots.dot_start) == 1]] = True
    return found


def join_products(
    program: Program, flow: Flow, roots: LaunchedFusions, launched: LaunchedFusions
) -> LaunchedFusions:
    """Join each product with the elementwise fusion that is its only reader; of several the last.

    A result of the program is written beside what that fusion makes, if that is a result as well:
    momentum and the update by it.
    """
    home, single = _home(program, launched), np.diff(launched.op_start) == 1
    row, read = launched.rows(launched.read_start), program.use_value[launched.reads]
    made, returned = program.value_op[read], _returned(program)
    loops = elementwise(flow, launched) & (np.diff(launched.dot_start) == 0)
    joins = loops[row] & _alone(program, launched, returned)[read] & (home[made] >= 0)
    joins &= made_by_products(program, roots)[made] & single[home[made]]
    joins &= ~_cut(program)[read]
    row, read, made = row[joins], read[joins], made[joins]
    root = program.op_values[launched.first_op[row]]
    alike = flow.elements[read] == flow.elements[root]
    alike &= flow.trips[made] == flow.trips[launched.first_op[row]]
    alike &= ~returned[read] | returned[root]
    row, read, made = row[alike], read[alike], made[alike]
    into, inner = np.arange(len(launched)), np.zeros(program.ops, dtype=np.bool_)
    order = np.lexsort((made, row))
    last = order[np.append(np.diff(row[order]) > 0, True)[: len(order)]]
    into[home[made[last]]] = row[last]
    inner[made[last]] = ~returned[read[last]]
    return launched.joined(program, into, inner) if len(last) else launched


def joined_products(program: Program, roots: LaunchedFusions, launched: LaunchedFusions) -> Ints:
    """Products whose own root launches nothing: they run inside an elementwise fusion."""
    writes = np.zeros(program.ops, dtype=np.bool_)
    writes[launched.ops] = True
    found: Ints = roots.dots[~writes[roots.ops[roots.rows(roots.dot_start)]]]
    return found


def updates_inside(program: Program, launched: LaunchedFusions) -> Bools:
    """Of each fusion whether it makes several results of the program, and a product inside."""
    row = launched.rows(launched.op_start)
    results = np.zeros(program.ops, dtype=np.int64)
    np.add.at(results, program.value_op, _returned(program))
    found: Bools = np.bincount(row, weights=results[launched.ops], minlength=len(launched)) > 1
    return found & (np.diff(launched.dot_start) > 0)


def _home(program: Program, launched: LaunchedFusions) -> Ints:
    """The fusion of each op that writes, or -1."""
    found = np.full(program.ops, -1)
    found[launched.ops] = launched.rows(launched.op_start)
    return found


def elementwise(flow: Flow, launched: LaunchedFusions) -> Bools:
    """Of each fusion whether all of its ops are elementwise."""
    found = np.ones(len(launched), dtype=np.bool_)
    found[launched.rows(launched.op_start)[flow.role[launched.ops] != Role.FUSIBLE]] = False
    return found


def _cut(program: Program) -> Bools:
    """For each value whether it is sliced, or padded between its elements or around them."""
    found = np.zeros(program.values, dtype=np.bool_)
    found[program.use_value[named(program, TAKING_PARTS)[program.use_op]]] = True
    return found


def _alone(program: Program, launched: LaunchedFusions, returned: Bools) -> Bools:
    """For each value whether one fusion alone reads it, or returns it besides."""
    read = launched.rows(launched.read_start) * program.values + program.use_value[launched.reads]
    readers = np.bincount(np.unique(read) % program.values, minlength=program.values)
    found: Bools = readers - returned == 1
    return found


def _returned(program: Program) -> Bools:
    """For each value whether it is a result of the program."""
    found = np.zeros(program.values, dtype=np.bool_)
    found[program.use_value[[result.use for result in program.results]]] = True
    return found
