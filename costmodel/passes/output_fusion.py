"""Products that run as one with the elementwise fusion that alone reads them.

It runs as their blocks are made, however often it reads them, as the gradient of an activation
does.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.program.dataflow import Bools, Flow
from toast.costmodel.program.launches import LaunchedFusions
from toast.costmodel.program.op_traits import Role


def made_by_products(program: Program, roots: LaunchedFusions) -> Bools:
    """For each op whether it writes what is computed of one product."""
    found = np.zeros(program.ops, dtype=np.bool_)
    found[roots.ops[np.diff(roots.dot_start) == 1]] = True
    return found


def join_products(
    program: Program, flow: Flow, roots: LaunchedFusions, launched: LaunchedFusions
) -> LaunchedFusions:
    """Join each product with the elementwise fusion that is its only reader; of several the last.

    XLA does so before it makes fusions of several results: each of these counts as a reader.
    """
    home, single = _home(program, launched), np.diff(launched.op_start) == 1
    row, read = launched.rows(launched.read_start), program.use_value[launched.reads]
    made = program.value_op[read]
    loops = elementwise(flow, launched) & (np.diff(launched.dot_start) == 0)
    joins = loops[row] & _alone(program, roots)[read] & (home[made] >= 0)
    joins &= made_by_products(program, roots)[made] & single[home[made]]
    row, read, made = row[joins], read[joins], made[joins]
    first = launched.first_op[row]
    alike = flow.elements[read] == flow.elements[program.op_values[first]]
    alike &= flow.trips[made] == flow.trips[first]
    row, made = row[alike], made[alike]
    into, inner = np.arange(len(launched)), np.zeros(program.ops, dtype=np.bool_)
    order = np.lexsort((made, row))
    last = order[np.append(np.diff(row[order]) > 0, True)[: len(order)]]
    into[home[made[last]]] = row[last]
    inner[made[last]] = True
    return launched.joined(program, into, inner) if len(last) else launched


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


def _alone(program: Program, roots: LaunchedFusions) -> Bools:
    """For each value whether one root alone reads it, and it is no result of the program."""
    read = roots.rows(roots.read_start) * program.values + program.use_value[roots.reads]
    found = np.bincount(np.unique(read) % program.values, minlength=program.values) == 1
    found[program.use_value[[result.use for result in program.results]]] = False
    return found
