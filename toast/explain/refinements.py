"""The refinements of a plan in words: the places that differ from their colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from toast.costmodel.evaluator import Cost, Refined, Refinement
from toast.costmodel.resolved import ResolvedPlan
from toast.labels.decisions import after
from toast.labels.labels import Labels
from toast.plans.plan import Decision
from toast.search.problem import Problem


def refinements(
    problem: Problem,
    resolved: ResolvedPlan,
    costs: Sequence[Cost],
    say: Labels,
    names: Sequence[str],
) -> list[Decision]:
    """One row for each refinement of a plan; `costs` after each decision, `names` of colours."""
    axes, state = problem.evaluator.mesh.axes, resolved.state
    return [
        Decision(
            colour=names[_group(problem, state[:count], refinement)],
            axis=axes[refinement.axis].name,
            resolution="",
            places=list(_places(problem, refinement, say)),
            **after(problem, cost),
        )
        for count, (refinement, cost) in enumerate(zip(state, costs, strict=True))
        if isinstance(refinement, Refinement)
    ]


def _group(problem: Problem, before: Refined, refinement: Refinement) -> int:
    """The colour group of the dimension that a refinement gives its axis to, or takes it from."""
    tables = problem.evaluator.tables
    unit, item = refinement.places[0]
    first, end = tables.units.start[unit : unit + 2].tolist()
    if item < 0:
        masks = problem.evaluator.masks(before)[first:end]
        item = int(np.argmax(masks >> refinement.axis & 1))
    return int(tables.units.item_group[first + item])


def _places(problem: Problem, refinement: Refinement, say: Labels) -> Iterator[str]:
    """`mlp/dot_general: dimension 1`, `['w'][*]: whole`; `(18)` for 18 of the same words."""
    for unit, item in refinement.places:
        places: Counter[str] = Counter()
        layouts = problem.evaluator.layouts
        for value in np.flatnonzero(layouts.value_unit == unit).tolist():
            where = f"dimension {item}" if item >= 0 else "whole"
            places[f"{say.name(value)}, stored: {where}"] += 1
        for op in np.flatnonzero(layouts.op_unit == unit).tolist():
            places[f"{say.op(op)}, computed: {_factor(problem, op, item)}"] += 1
        yield from (text if n == 1 else f"{text} ({n})" for text, n in places.items())


def _factor(problem: Problem, op: int, item: int) -> str:
    """Which dimension of its result, or else of an operand, a factor of an op is."""
    if item < 0:
        return "whole"
    program = problem.evaluator.analysis.program
    name = int(program.op_factors[op]) + item
    for value in program.values_of(op):
        dims = program.def_names(value).tolist()
        if name in dims:
            return f"dimension {dims.index(name)}"
    for place, use in enumerate(program.uses_of(op)):
        dims = program.use_names(use).tolist()
        if name in dims:
            return f"dimension {dims.index(name)} of operand {place}"
    return f"factor {item}"
