"""Reference layouts that a plan is shown beside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toast.analysis.analyse import Analysis
from toast.costmodel.evaluator import Action, Evaluator, State


def data_parallel(evaluator: Evaluator) -> State:
    """Plain data parallelism: the batch dimension over every axis; () where none is found.

    The batch is the leading dimension of an input that is not state (no result has its place),
    and among those the one that shards the most work.
    """
    return over_all_axes(evaluator, batch_groups(evaluator.analysis))


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
