"""Laws of the evaluator over random states of a real training step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.costmodel.training_steps import STATES, actions, gemma_evaluator
from toast.costmodel.evaluator import Action
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs


@given(STATES)
def test_pricing_is_repeatable_and_positive(state: tuple[Action, ...]) -> None:
    evaluator = gemma_evaluator()
    cost = evaluator.cost(state)
    assert cost == evaluator.cost(state, evaluator.new_scratch())
    assert cost.compute > 0
    assert cost.communication >= 0
    assert cost.peak > 0


@given(STATES)
def test_a_repeated_action_changes_nothing(state: tuple[Action, ...]) -> None:
    evaluator = gemma_evaluator()
    assert evaluator.cost((*state, *state)).key == evaluator.cost(state).key


@given(STATES, st.integers(0, 10_000), st.integers(0, 10_000))
def test_actions_on_different_axes_commute_on_different_colours(
    state: tuple[Action, ...], first: int, second: int
) -> None:
    evaluator = gemma_evaluator()
    one, two = actions()[first % len(actions())], actions()[second % len(actions())]
    if one.axis == two.axis or one.group == two.group:
        return
    assert evaluator.cost((*state, one, two)).key == evaluator.cost((*state, two, one)).key


@given(STATES)
def test_every_layout_uses_an_axis_once_and_divides(state: tuple[Action, ...]) -> None:
    evaluator = gemma_evaluator()
    specs, program = Specs(resolve(evaluator, state)), evaluator.analysis.program
    sizes = {axis.name: axis.size for axis in evaluator.mesh.axes}
    for value in range(program.values):
        spec = specs.value(value)
        used = [axis for axes in spec for axis in axes]
        assert len(used) == len(set(used))
        for dim, axes in zip(program.shape(value), spec, strict=True):
            assert dim % int(np.prod([sizes[axis] for axis in axes], dtype=np.int64)) == 0


@given(STATES)
def test_donated_arguments_keep_their_layout(state: tuple[Action, ...]) -> None:
    evaluator = gemma_evaluator()
    specs, program = Specs(resolve(evaluator, state)), evaluator.analysis.program
    for argument in program.arguments:
        if argument.aliases >= 0:
            result = program.results[argument.aliases]
            assert specs.value(argument.value) == specs.use(result.use)


@given(STATES)
def test_collectives_add_up_to_the_communication(state: tuple[Action, ...]) -> None:
    evaluator = gemma_evaluator()
    total = sum(row.seconds for row in resolve(evaluator, state).totals())
    assert np.isclose(total, evaluator.cost(state).communication)


def test_known_layouts_cost_what_they_should() -> None:
    evaluator = gemma_evaluator()
    program = evaluator.analysis.program
    batch = next(a for a in program.arguments if a.name == "batch['tokens']")
    colour = evaluator.analysis.colours.colour[program.def_names(batch.value)[0]]
    group = int(evaluator.analysis.groups.of_colour[colour])
    rows = resolve(evaluator, (Action(group=group, axis=0),)).totals()
    assert {row.kind.name for row in rows} == {"ALL_REDUCE"}
    weights = sum(
        4 * int(np.prod(program.shape(a.value))) for a in program.arguments if "params" in a.name
    )
    # data parallelism sends every gradient once (two halves of it, over two devices); the
    # embedding's has two terms, one from the gather and one from the tied head
    sent = sum(row.bytes for row in rows)
    embedding = 4 * 256 * 64
    assert weights <= sent <= weights + embedding + 1024
