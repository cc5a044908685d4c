"""Hypothesis strategies: whole programs, and what picks a state for them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.laws.chains import Text
from tests.laws.states import MAX_ACTIONS
from tests.laws.steps import CONTRACTING, ELEMENTWISE, SHAPING, SIZES, Draw, Step
from tests.laws.window_steps import INDEXED, MOVING

EVERY: tuple[Step, ...] = ELEMENTWISE + SHAPING + CONTRACTING + MOVING + INDEXED
FOUR_TO_EIGHT = ("x=2,y=2", "x=2,y=4", "x=8", "x=2,y=2,z=2")
EIGHT = ("x=2,y=4", "x=8", "x=2,y=2,z=2")

picks = st.lists(st.integers(0, 10_000), min_size=1, max_size=MAX_ACTIONS)


@st.composite
def programs(draw: Draw, steps: tuple[Step, ...] = EVERY, most: int = 7) -> Text:
    """A chain of up to `most` ops over one or two arguments."""
    text = Text()
    for _ in range(draw(st.integers(1, 2))):
        rank = draw(st.integers(1, 3))
        text.argument(tuple(draw(st.sampled_from((8, 4, 2, 6, 3, 1))) for _ in range(rank)))
    for _ in range(draw(st.integers(1, most))):
        recent = draw(st.sampled_from(text.values[-3:]))
        draw(st.sampled_from(steps))(draw, text, recent)
    return text


__all__ = ["EIGHT", "EVERY", "FOUR_TO_EIGHT", "SIZES", "picks", "programs"]
