"""Colours: names joined by the map M (TOAST sections 3.1 and 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toast.analysis.program import TRANSFERS, FactorKind, Ints, Program
from toast.analysis.unionfind import components

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Colours:
    """The named dimensions of a program.

    `colour` gives each name its colour, -1 for names that can never be sharded; colours are
    numbered by falling number of names.
    """

    colour: Ints
    count: int


def name_colours(program: Program, edges: Ints) -> Colours:
    """Join the names of definitions with those of their uses, by the `edges` of the map M."""
    shardable = program.factor_kind != FactorKind.BLOCKED
    pairs = np.concatenate([edges, program.links])
    joined = pairs[shardable[pairs[:, 0]] & shardable[pairs[:, 1]]]
    component = components(len(program.factor_size), joined)
    used = shardable & (program.factor_size > 1) & ~_of_constants(program)
    used &= _worked_on(program, component, used)
    sizes = np.bincount(component[used], minlength=int(component.max(initial=0)) + 1)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    colour = np.where(used, rank[component], -1)
    return Colours(colour=colour, count=int(np.count_nonzero(sizes)))


def _worked_on(program: Program, component: Ints, used: Bools) -> Bools:
    """For each name whether an op other than a transfer works along its dimension.

    What is only carried about (the stack of layers of a scan, which the loop indexes) cannot be
    computed in shards, so it is no dimension to plan for.
    """
    moves = np.array([name in TRANSFERS for name in program.names], dtype=np.bool_)
    working = used & ~np.repeat(moves[program.op_name], np.diff(program.op_factors))
    worked = np.zeros(int(component.max(initial=-1)) + 1, dtype=np.bool_)
    worked[component[working]] = True
    found: Bools = worked[component]
    return found


def _of_constants(program: Program) -> Bools:
    """For each name whether its op makes nothing but constants: sharding those means nothing."""
    live = np.ones(program.ops, dtype=np.bool_)
    live[program.value_op] = False
    live[program.value_op[~program.constant]] = True
    factors = program.op_factors[1:] - program.op_factors[:-1]
    return np.repeat(~live, factors)


def map_edges(program: Program) -> Ints:
    """The map M [edges, (name at the definition, name at the use)], dimension by dimension.

    Uses of constants stand alone and have no edge.
    """
    counts = program.use_dims[1:] - program.use_dims[:-1]
    use = np.repeat(np.arange(len(counts)), counts)
    offset = np.arange(len(program.use_name)) - program.use_dims[use]
    value = program.use_value[use]
    source = program.dim_name[program.value_dims[value] + offset] if len(value) else value
    target = program.use_name
    kept = (source >= 0) & (target >= 0) & ~program.constant[value]
    return np.stack([source[kept], target[kept]], axis=1)
