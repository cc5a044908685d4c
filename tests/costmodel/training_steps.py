"""A small training step, and states of it."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from examples import gemma
from tests.modules import evaluator_of
from toast.costmodel.evaluator import Action, Evaluator
from toast.search.actions import action_space


@cache
def gemma_evaluator() -> Evaluator:
    data = gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode()
    return evaluator_of(data, "data=2,model=4")


@cache
def actions() -> tuple[Action, ...]:
    return action_space(gemma_evaluator())


STATES = st.lists(st.integers(0, 10_000), max_size=6).map(
    lambda numbers: tuple(actions()[n % len(actions())] for n in numbers)
)
