"""Reference layouts that a plan is shown beside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from toast.analysis.analyse import Analysis
from toast.costmodel.evaluator import Action, Evaluator, State

WORTH = 1e-3
"""The part of the peak that splitting an argument has to save."""


def data_parallel(evaluator: Evaluator) -> State:
    """Plain data parallelism: the batch dimension over every axis; () where none is found.

    The batch is the leading dimension of an input that is not state (no result has its place),
    and among those the one that shards the most work.
    """
    return over_all_axes(evaluator, batch_groups(evaluator.analysis))


def fully_sharded(evaluator: Evaluator) -> State:
    """FSDP: the batch over every axis, and what is kept whole then split over all of them.

    Of each such argument, the largest first, the first dimension counts, again the largest first,
    that lowers the peak. () where no batch is found.
    """
    state = data_parallel(evaluator)
    if not state:
        return ()
    cost, axes = evaluator.cost(state), range(len(evaluator.mesh.axes))
    taken, tried = {action.group for action in state}, set[int]()
    for groups in _argument_groups(evaluator.analysis):
        for group in () if taken.intersection(groups) else groups:
            if group in tried:
                continue
            tried.add(group)
            longer = (*state, *(Action(group=group, axis=axis) for axis in axes))
            smaller = evaluator.cost(longer)
            if smaller.peak < cost.peak * (1 - WORTH):
                state, cost = longer, smaller
                taken.add(group)
                break
    return state


def _argument_groups(analysis: Analysis) -> Iterator[list[int]]:
    """The colours of each argument's dimensions, the largest argument and dimension first."""
    program = analysis.program
    values = {argument.value for argument in program.arguments}
    for value in sorted(values, key=lambda value: (-math.prod(program.shape(value)), value)):
        shape, names = program.shape(value), program.def_names(value)
        dims = sorted(range(len(names)), key=lambda dim: -shape[dim])
        colours = [int(analysis.colours.colour[names[dim]]) for dim in dims if names[dim] >= 0]
        yield [int(analysis.groups.of_colour[colour]) for colour in colours if colour >= 0]


def over_all_axes(evaluator: Evaluator, groups: Sequence[int]) -> State:
    """Of some colours the one that shards the most work, over every axis; () for none."""
    states = []
    for group in groups:
        actions = (Action(group=group, axis=axis) for axis in range(len(evaluator.mesh.axes)))
        states.append(tuple(actions))
    return min(states, key=lambda state: evaluator.cost(state).compute, default=())


def batch_groups(analysis: Analysis) -> list[int]:
    """The colours that may be the batch, as `data_parallel` says what that is."""
    program = analysis.program
    state_types = {
        (program.shape(value), program.dtype(value))
        for value in (program.sources[result.use] for result in program.results)
    }
    found = []
    for argument in program.arguments:
        kind = (program.shape(argument.value), program.dtype(argument.value))
        names = program.def_names(argument.value)
        if argument.donated or kind in state_types or not len(names) or names[0] < 0:
            continue
        colour = int(analysis.colours.colour[names[0]])
        if colour >= 0:
            found.append(int(analysis.groups.of_colour[colour]))
    return [int(group) for group in np.unique(np.array(found, dtype=np.int64))]
