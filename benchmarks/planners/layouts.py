"""The layouts that people choose by hand (TOAST section 5.1.1), as states of the planner.

A layout names tactics and the mesh axes that each is given, in the order in which they come first:
`rows` are all axes but the last, `model` the last, `all` all of them. A tactic names dimensions of
arguments, counted from the last, so that scanned layers are told the same. Stating a layout so
gives it what a plan has too: a parameter that the rows' axis splits for storage is gathered at its
use, which the compiler would not do by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.planners.tactics import FAMILIES
from benchmarks.planners.zoo_programs import PROGRAMS
from toast.costmodel.evaluator import Action, Evaluator, State
from toast.search.problem import Problem

Choice = tuple[str, int, str]
"""An argument by the end of its name, a dimension of it, and the mesh axis that is to split it."""
TACTICS = FAMILIES | {name: tactics for name, (_, tactics) in PROGRAMS.items()}

_COMMON = {
    "data": "batch:all",
    "fsdp": "batch:all parameters:all",
    "megatron": "megatron:all",
    "data+megatron": "batch:rows megatron:model",
    "fsdp+megatron": "batch:rows megatron:model parameters:rows",
}
LAYOUTS: dict[str, dict[str, str]] = {
    "transformer": {
        **_COMMON,
        "fsdp+megatron+sequence": "batch:rows megatron:model sequence:model parameters:rows",
        "fsdp+sequence": "batch:rows sequence:model parameters:all",
    },
    "itx": {
        "data": "batch:all",
        "megatron": "hidden:all heads:all",
        "data+megatron": "batch:rows hidden:model heads:model",
        "data+megatron+multi-query": "hidden:model batch:all",
    },
    "gns": {
        "edges": "edges:all",
        "edges+nodes": "edges:all nodes:all",
        "edges+fsdp": "edges:all parameters:all",
        "edges+megatron": "edges:rows megatron:model",
    },
    "gpt": _COMMON,
    "unet": _COMMON,
    "mlp": _COMMON,
    **dict.fromkeys(PROGRAMS, _COMMON),
}


def layout(problem: Problem, family: str, name: str) -> State:
    """The state of a layout by hand on the mesh of a problem; KeyError for one that is none."""
    axes = [axis.name for axis in problem.evaluator.mesh.axes]
    return named(problem, choices(family, name, axes))[0]


def choices(family: str, name: str, axes: Sequence[str]) -> tuple[Choice, ...]:
    """What a layout splits over which of these mesh axes, in order."""
    places = {"all": axes, "rows": axes[:-1], "model": axes[-1:]}
    pairs = (part.split(":") for part in LAYOUTS[family][name].split())
    return tuple(
        (ending, dim, axis)
        for tactic, place in pairs
        for ending, dim in TACTICS[family][tactic]
        for axis in places[place]
    )


def named(problem: Problem, wanted: Sequence[Choice]) -> tuple[State, float]:
    """The state of choices taken one by one, each with the resolution of least C(s); its C(s)."""
    state: State = ()
    numbers = [axis.name for axis in problem.evaluator.mesh.axes]
    for ending, dim, axis in wanted:
        number = numbers.index(axis)
        for group in groups_of(problem.evaluator, ending, dim):
            bits = {a.bits for a in problem.actions if a.group == group} or {0}
            state = min(
                ((*state, Action(group=group, axis=number, bits=b)) for b in sorted(bits)),
                key=lambda longer: problem.cost(longer)[0],
            )
    return state, problem.cost(state)[0]


def groups_of(evaluator: Evaluator, ending: str, dim: int) -> list[int]:
    """The colour groups of a dimension of the arguments whose names end so."""
    analysis, program = evaluator.analysis, evaluator.analysis.program
    values = [a.value for a in program.arguments if a.name.endswith(ending)]
    assert values, ending
    names = [program.def_names(value)[dim] for value in values]
    groups = (int(analysis.groups.of_colour[analysis.colours.colour[name]]) for name in names)
    return list(dict.fromkeys(groups))
