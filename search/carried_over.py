"""A plan of one program, for another with the same arguments."""

from __future__ import annotations

from toast.costmodel.evaluator import Action, State
from toast.search.problem import Problem


def carried_over(source: Problem, state: State, target: Problem) -> State:
    """A plan of one program for another with the same arguments, by the colours of these.

    An action on a colour that no argument has, or that the other program does not offer, is left
    out; so is how conflicts were resolved.
    """
    theirs, ours = _argument_groups(source), _argument_groups(target)
    same: dict[int, int] = {}
    for one, other in zip(theirs, ours, strict=True):
        for group, twin in zip(one, other, strict=True):
            if group >= 0 and twin >= 0:
                same.setdefault(group, twin)
    offered = {(action.group, action.axis): action for action in target.actions}
    found: list[Action] = []
    for action in state:
        twin = same.get(action.group, -1)
        if (twin, action.axis) in offered:
            exact = Action(group=twin, axis=action.axis, bits=action.bits)
            chosen = exact if exact in target.actions else offered[twin, action.axis]
            if chosen not in found:
                found.append(chosen)
    return tuple(found)


def _argument_groups(problem: Problem) -> list[list[int]]:
    """The colour group of each dimension of each argument, -1 for none."""
    analysis = problem.evaluator.analysis
    program, colours = analysis.program, analysis.colours.colour
    found = []
    for argument in program.arguments:
        names = program.def_names(argument.value).tolist()
        own = [int(colours[name]) if name >= 0 else -1 for name in names]
        found.append([int(analysis.groups.of_colour[one]) if one >= 0 else -1 for one in own])
    return found
