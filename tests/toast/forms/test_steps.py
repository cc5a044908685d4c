"""Moves between layouts, taken apart into single collectives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.emit.lowering.steps import Step, StepKind, steps
from toast.plans.plan import Spec

AXES = ("x", "y", "z")


@st.composite
def layouts(draw: st.DrawFn) -> Spec:
    """Some axes on some of three dimensions."""
    found: Spec = [[], [], []]
    for axis in draw(st.permutations(AXES)):
        dim = draw(st.integers(0, 3))
        if dim < 3:
            found[dim].append(axis)
    return found


def replayed(step: Step) -> Spec:
    """The layout after a step, from what the step says that it does."""
    after = [list(axes) for axes in step.before]
    for dim, axes in enumerate(step.axes):
        if step.kind is StepKind.SLICE:
            after[dim] += axes
        elif axes:
            assert after[dim][-len(axes) :] == axes, "only the last axes can be gathered"
            del after[dim][-len(axes) :]
    for moved, here, there in step.moves:
        assert after[here][-len(moved) :] == list(moved), "only the last axes can be exchanged"
        del after[here][-len(moved) :]
        after[there] += moved
    if step.kind is StepKind.PERMUTE:
        assert [sorted(axes) for axes in step.before] == [sorted(axes) for axes in step.after]
        return step.after
    return after


@given(have=layouts(), want=layouts())
def test_steps_lead_from_one_layout_to_the_other(have: Spec, want: Spec) -> None:
    here = have
    for step in steps(have, want):
        assert step.before == here
        assert replayed(step) == step.after != here
        here = step.after
    assert here == want


@pytest.mark.parametrize(
    ("have", "want", "kinds"),
    [
        ([["x"], []], [["x"], []], []),
        ([["x"], []], [[], []], ["all_gather"]),
        ([["x"], ["y"]], [[], []], ["all_gather"]),
        ([[], []], [["x"], ["y"]], ["all_slice"]),
        ([["x"], []], [[], ["x"]], ["all_to_all"]),
        ([["x", "y"], []], [["y", "x"], []], ["collective_permute"]),
        ([["x", "y"], []], [["y"], []], ["collective_permute", "all_gather"]),
        ([["x"], []], [["x", "y"], []], ["all_slice"]),
        ([["x", "y"], []], [["x"], ["y"]], ["all_to_all"]),
    ],
)
def test_each_move_takes_the_collectives_that_it_is_priced_with(
    have: Spec, want: Spec, kinds: list[str]
) -> None:
    assert [step.kind.value for step in steps(have, want)] == kinds


@given(have=layouts(), want=layouts())
def test_axes_that_stay_where_they_are_are_not_sent(have: Spec, want: Spec) -> None:
    first = {axes[0] for axes, other in zip(have, want, strict=True) if axes[:1] == other[:1] != []}
    for step in steps(have, want):
        if step.kind is not StepKind.PERMUTE:
            assert not first & set(step.over)
