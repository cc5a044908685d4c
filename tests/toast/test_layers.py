"""Layer groups are those that a walk over every op finds, rule by rule."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from examples import gemma
from examples.models import gpt, itx, t2b
from tests.laws.chains import Text
from tests.laws.programs import programs
from toast.analysis.load import load
from toast.analysis.program import ARGUMENT, LOOP_BEGIN, LOOP_END, Program
from toast.labels.layers import NO_GROUP, Layers, group_names, state_arguments

ELEMENTWISE = {
    f"stablehlo.{kind}"
    for kind in ("add", "subtract", "multiply", "divide", "select", "negate", "clamp", "convert")
}
PASSING = {
    LOOP_BEGIN,
    *(
        f"stablehlo.{kind}"
        for kind in (
            "broadcast_in_dim",
            "convert",
            "dynamic_slice",
            "optimization_barrier",
            "reshape",
            "slice",
            "transpose",
        )
    ),
}


def by_walking(program: Program) -> list[int]:
    """The argument that each op belongs to, or -1."""
    state = state_arguments(program)
    sizes = [math.prod(program.shape(argument.value)) for argument in program.arguments]
    held = {argument.value: number for number, argument in enumerate(program.arguments)}
    weight = [own(program, op, held, sizes, state) for op in range(program.ops)]
    target: dict[int, int] = {}
    for op in range(program.ops - 1, -1, -1):
        mine = [target[value] for value in program.values_of(op) if value in target]
        if mine and weight[op] not in state:
            weight[op] = mine[0]
        for use in program.uses_of(op):
            value, kind = program.sources[use], program.kind(op)
            found = weight[op] if kind in ELEMENTWISE and weight[op] in state else -1
            if found >= 0:
                shape = program.shape(program.arguments[found].value)
                found = found if value not in held and shape == program.shape(value) else -1
            made = program.values_of(op)
            keeps = len(made) == 1 and (kind in ELEMENTWISE or kind in PASSING)
            if found < 0 and mine and keeps:
                same = math.prod(program.shape(made[0])) == math.prod(program.shape(value))
                found = mine[0] if same else -1
            if found >= 0:
                target.setdefault(value, found)
    for op in range(program.ops):
        if weight[op] < 0:
            homes = sorted({program.makers[program.sources[use]] for use in program.uses_of(op)})
            known = [weight[home] for home in homes if weight[home] >= 0]
            weight[op] = known[-1] if known else -1
    return weight


def own(
    program: Program, op: int, held: dict[int, int], sizes: list[int], state: frozenset[int]
) -> int:
    """The chief argument that an op reads; what is a form of an argument comes into `held`."""
    kind, values = program.kind(op), program.values_of(op)
    operands = [program.sources[use] for use in program.uses_of(op)]
    if kind in (ARGUMENT, LOOP_BEGIN, LOOP_END):
        for place, value in enumerate(values):
            if kind == LOOP_BEGIN and operands and operands[place % len(operands)] in held:
                held[value] = held[operands[place % len(operands)]]
        return -1
    read = [held[value] for value in operands if value in held]
    if kind in PASSING and operands and operands[0] in held:
        held |= dict.fromkeys(values, held[operands[0]])
    ranked = [number for number in read if sizes[number] > 1]
    return max(ranked, key=lambda number: (number in state, sizes[number]), default=-1)


def step_of(name: str) -> Program:
    if name == "gemma":
        return load(gemma.lower(gemma.PRESETS["tiny"]).as_text().encode()).program
    module = {"gpt": gpt, "t2b": t2b, "itx": itx}[name.partition(" ")[0]]
    config = module.MODEL.config("tiny", scan=name.endswith("scan"))
    return load(module.lower(config).as_text().encode()).program


@pytest.mark.parametrize("name", ["gemma", "gpt", "t2b scan", "itx scan"])
def test_layer_groups_are_those_of_a_walk(name: str) -> None:
    program = step_of(name)
    names, layers, weight = group_names(program), Layers(program), by_walking(program)
    expected = [names[number] if number >= 0 else NO_GROUP for number in weight]
    assert [layers.of_op(op) for op in range(program.ops)] == expected
    assert len(set(expected)) > 3


@given(module=programs())
def test_those_of_any_program_are_those_of_a_walk(module: Text) -> None:
    program = load(module.module().encode()).program
    names, layers, weight = group_names(program), Layers(program), by_walking(program)
    expected = [names[number] if number >= 0 else NO_GROUP for number in weight]
    assert [layers.of_op(op) for op in range(program.ops)] == expected
