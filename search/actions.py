"""The action set: dim_name x resolution_order x axis (TOAST section 4.2)."""

from __future__ import annotations

from itertools import product

import numpy as np

from toast.analysis.analyse import Analysis
from toast.costmodel.evaluator import Action, Evaluator

PRUNE_BELOW = 10
"""Actions that touch fewer distinct dimensions than this are left out of large programs."""
MAX_FREE_BITS = 4
"""With more set groups than this on one colour, resolution orders differ from all-0 and all-1 in
one bit only."""


def action_space(evaluator: Evaluator) -> tuple[Action, ...]:
    """Every action worth trying: touches enough dimensions and changes the price of something."""
    analysis = evaluator.analysis
    threshold = prune_threshold(analysis)
    sizes = _group_sizes(analysis)
    resolutions = [_resolutions(count) for count in _sets_per_group(analysis)]
    axes = [index for index, axis in enumerate(evaluator.mesh.axes) if axis.size > 1]
    initial = evaluator.cost(())
    wanted = []
    for group in range(analysis.groups.colours):
        if sizes[group] < threshold:
            continue
        for axis, bits in product(axes, resolutions[group]):
            wanted.append(Action(group=group, axis=axis, bits=bits))
    costs = evaluator.costs([(action,) for action in wanted])
    return tuple(
        action
        for action, cost in zip(wanted, costs, strict=True)
        if (cost.seconds, cost.peak) != (initial.seconds, initial.peak)
    )


def prune_threshold(analysis: Analysis) -> int:
    """How many dimensions an action must touch: ten, and fewer in programs of few ops."""
    return min(PRUNE_BELOW, max(2, analysis.program.ops // 50))


def _group_sizes(analysis: Analysis) -> list[int]:
    colour = analysis.colours.colour
    groups = analysis.groups.of_colour[colour[colour >= 0]]
    return [int(n) for n in np.bincount(groups, minlength=analysis.groups.colours)]


def _sets_per_group(analysis: Analysis) -> list[int]:
    counts = np.bincount(analysis.groups.set_colour, minlength=analysis.groups.colours)
    return [int(n) for n in counts]


def _resolutions(sets: int) -> list[int]:
    """Resolution orders of a colour with `sets` set groups, as bitstrings."""
    if sets <= MAX_FREE_BITS:
        return list(range(1 << sets))
    ones = (1 << min(sets, 62)) - 1
    singles = [1 << k for k in range(min(sets, 62))]
    return [0, ones, *singles, *(ones ^ bit for bit in singles)]
