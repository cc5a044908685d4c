"""What does not fit is pressed: computed again as far as it can be, and not for nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import gemma
from tests.costmodel.explained import assert_adds_up
from tests.costmodel.pressed import sorted_twice
from tests.modules import analysed
from toast.analysis.analyse import Analysis
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Action, Cost, Evaluator
from toast.costmodel.hardware.devices import MARGIN, find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.rematerialization import gaps_between, widest
from toast.search.actions import action_space

TPU = find("tpu-v5e")
MATRIX = 36864 * 36864 * 4


def with_memory(
    analysis: Analysis, plannable: float, mesh: str = "data=2,model=4", least_bytes: int = 0
) -> Evaluator:
    """An evaluator for a TPU of which a plan may use so many bytes.

    Its compiler keeps nothing of `least_bytes` or more.
    """
    total = TPU.reserved_bytes + int(plannable / (1.0 - MARGIN)) + 1
    profile = profile_of(TPU).changed({"rematerialization": {"least_bytes": least_bytes}})
    return Evaluator(analysis, Mesh.parse(mesh), replace(TPU, memory_bytes=total), profile=profile)


@cache
def small() -> Analysis:
    data = gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode()
    return analysed(data)


@cache
def ample() -> Evaluator:
    return with_memory(small(), 2.0**34)


@cache
def pressed_to(plannable: int) -> Evaluator:
    return with_memory(small(), float(plannable))


def state_of(picks: list[int]) -> tuple[Action, ...]:
    actions = action_space(ample())
    return tuple(actions[pick % len(actions)] for pick in picks)


STATES = st.lists(st.integers(0, 10_000), max_size=5).map(state_of)


def test_an_elementwise_value_that_is_read_much_later_is_let_go_of() -> None:
    """With room it lies beside the products, two of them in 16 bits, and the argument.

    Pressed, the most is what the last sort has: the argument, its operand and its result.
    """
    cost = with_memory(analysed(sorted_twice()), 2.0**30, "a=2").cost(())
    assert cost.room == pytest.approx(3.5 * MATRIX, rel=1e-4)
    assert cost.peak == pytest.approx(3.0 * MATRIX, rel=1e-4)


def test_what_is_smaller_than_the_compiler_looks_at_is_kept() -> None:
    analysis = analysed(sorted_twice())
    let_go, kept = (
        with_memory(analysis, 2.0**30, "a=2", least_bytes).cost(())
        for least_bytes in (MATRIX, MATRIX + 1)
    )
    assert let_go.peak < let_go.room
    assert kept.peak == kept.room == let_go.room


def test_to_press_costs_time_for_each_byte() -> None:
    analysis = analysed(sorted_twice())
    room = with_memory(analysis, 2.0**36, "a=2").cost(())
    limits = [room.room - part * MATRIX for part in (0.2, 0.4)]
    some, more = (with_memory(analysis, limit, "a=2").cost(()) for limit in limits)
    assert room.seconds < some.seconds < more.seconds
    assert more.seconds - some.seconds == pytest.approx(some.seconds - room.seconds, rel=1e-3)


@settings(max_examples=30)
@given(STATES)
def test_what_has_room_is_left_as_it_is(state: tuple[Action, ...]) -> None:
    cost = ample().cost(state)
    assert cost.peak == cost.room


@given(STATES, st.sampled_from([2**18, 2**20, 3 * 2**20]))
def test_less_memory_is_never_faster_and_never_lays_out_more(
    state: tuple[Action, ...], plannable: int
) -> None:
    whole, pressed = ample().cost(state), pressed_to(plannable).cost(state)
    assert pressed.room == whole.room
    assert pressed.peak <= whole.peak
    assert pressed.seconds >= whole.seconds
    assert (pressed.seconds > whole.seconds) == (pressed.peak < whole.peak)


@settings(max_examples=25)
@given(STATES, st.sampled_from([2**18, 2**20, 3 * 2**20]))
def test_an_explanation_of_what_is_pressed_adds_up(
    state: tuple[Action, ...], plannable: int
) -> None:
    assert_adds_up(pressed_to(plannable), state)


def test_a_compiler_that_computes_nothing_again_needs_its_room() -> None:
    device = replace(find("a100-40gb"), memory_bytes=find("a100-40gb").reserved_bytes + 2**20)
    cost: Cost = Evaluator(small(), Mesh.parse("data=2,model=4"), device).cost(())
    assert cost.peak == cost.room > 2**20


def test_gaps_lie_between_uses_and_end_where_the_value_can_be_had() -> None:
    value = np.array([0, 0, 0, 1, 1, 2])
    at = np.array([9, 1, 30, 2, 20, 5])
    gaps = gaps_between(value, at, np.array([30, 10, 99]))
    rows = zip(gaps.value.tolist(), gaps.first.tolist(), gaps.last.tolist(), strict=True)
    assert list(rows) == [(0, 2, 8), (0, 10, 29)]
    first, last = widest(gaps, np.array([30, 20, 5]))
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == [(10, 29), (21, 20), (6, 5)]
