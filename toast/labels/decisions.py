"""The decisions of a state as people read them, and back again.

A decision is written `COLOUR=axis`, with its resolution order where the colour has conflicts:
`COLOUR=axis:01`. A plan's decisions in their order make the same state again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toast.analysis.analyse import Analysis
from toast.analysis.errors import InvalidRequest
from toast.costmodel.evaluator import Action, Cost, State
from toast.costmodel.resolved import ResolvedPlan
from toast.labels.colours import colour_names
from toast.labels.resolution_words import ResolutionWords
from toast.plans.plan import Decision
from toast.search.problem import Problem


def costs_after(problem: Problem, resolved: ResolvedPlan) -> list[Cost]:
    """What the plan costs after each decision, refinements too; the plan knows its own."""
    state = resolved.state
    before = problem.evaluator.costs([state[:count] for count in range(1, len(state))])
    return [*before, resolved.cost][: len(state)]


def after(problem: Problem, cost: Cost) -> dict[str, float | int]:
    """What a decision's record says of the cost after it."""
    return {
        "cost_after": problem.reward.of(cost),
        "step_seconds_after": cost.seconds,
        "peak_bytes_after": round(cost.peak),
    }


def decisions(
    problem: Problem,
    resolved: ResolvedPlan,
    costs: Sequence[Cost],
    names: Sequence[str],
    words: ResolutionWords,
) -> list[Decision]:
    """The actions of a plan in order; `costs` after each, `names` those of the colours."""
    axes = problem.evaluator.mesh.axes
    return [
        Decision(
            colour=names[action.group],
            axis=axes[action.axis].name,
            resolution=resolution(problem, action),
            resolved=words.of(action),
            **after(problem, cost),
        )
        for action, cost in zip(resolved.state, costs, strict=True)
        if isinstance(action, Action)
    ]


def resolution(problem: Problem, action: Action) -> str:
    """The resolution order as a bitstring, set 0 first; empty for a colour without conflicts."""
    count = _sets(problem.evaluator.analysis, action.group)
    return "".join(str(action.bits >> bit & 1) for bit in range(count))


def decision_text(colour: str, axis: str, bits: str) -> str:
    """A decision as a request takes it."""
    return f"{colour}={axis}" + (f":{bits}" if bits else "")


def state_of(problem: Problem, texts: tuple[str, ...]) -> State:
    """The state that decisions mean; raises `InvalidRequest` for what is none of this problem."""
    names = decision_names(problem.evaluator.analysis)
    number = {name: group for group, name in enumerate(names)}
    axes = {axis.name: index for index, axis in enumerate(problem.evaluator.mesh.axes)}
    state = []
    for text in texts:
        colour, _, rest = text.rpartition("=")
        axis, _, bits = rest.partition(":")
        if colour not in number:
            raise InvalidRequest(
                f"The decision {text!r} is on a colour that this module does not have.",
                "Take decisions as a plan of this very module has them; `toast inspect` lists "
                "its colours.",
            )
        if axis not in axes:
            raise InvalidRequest(
                f"The decision {text!r} names the axis {axis!r}, which the mesh "
                f"{problem.evaluator.mesh} has not.",
                f"Its axes are {', '.join(axes)}.",
            )
        sets = _sets(problem.evaluator.analysis, number[colour])
        if set(bits) - {"0", "1"} or (bits and len(bits) != sets):
            raise InvalidRequest(
                f"The decision {text!r} has the resolution {bits!r} where {sets} bits are due.",
                "Write a 0 or a 1 for each set of conflicts of the colour, or nothing for zeros.",
            )
        resolved = sum(1 << place for place, bit in enumerate(bits) if bit == "1")
        state.append(Action(group=number[colour], axis=axes[axis], bits=resolved))
    return tuple(state)


def decision_names(analysis: Analysis) -> list[str]:
    """The names of colours, with the number of the colour behind one that another has too."""
    names = colour_names(analysis)
    counts = Counter(names)
    return [f"{name}#{group}" if counts[name] > 1 else name for group, name in enumerate(names)]


def _sets(analysis: Analysis, group: int) -> int:
    return int((analysis.groups.set_colour == group).sum())
