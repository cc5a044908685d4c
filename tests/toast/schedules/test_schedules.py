"""Schedules hold what their papers promise, whatever their sizes."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.errors import InvalidRequest
from toast.schedules.orders import GPIPE, INTERLEAVED, NAMES, ONE_F_ONE_B, make_schedule
from toast.schedules.schedule_file import read_schedule, schedule_text
from toast.schedules.steps import PipelineSchedule, StageStep, Work, check_schedule

STAGES = st.integers(1, 6)


@st.composite
def schedules(draw: st.DrawFn) -> PipelineSchedule:
    name, stages = draw(st.sampled_from(NAMES)), draw(STAGES)
    chunks = draw(st.integers(1, 4)) if name == INTERLEAVED else 1
    microbatches = draw(st.integers(1, 4)) * (stages if chunks > 1 else 1)
    training = draw(st.booleans())
    return make_schedule(name, stages, microbatches, chunks=chunks, training=training)


@given(schedules())
def test_every_step_is_there_once_and_none_waits_for_ever(schedule: PipelineSchedule) -> None:
    check_schedule(schedule)
    steps = [step for _, step in schedule.all_steps()]
    assert len(set(steps)) == len(steps)
    passes = schedule.microbatches * schedule.chunks * schedule.stages
    updates = schedule.chunks * schedule.stages
    assert len(steps) == (2 * passes + updates if schedule.training else passes)


@given(schedules())
def test_a_backward_step_follows_its_forward_step(schedule: PipelineSchedule) -> None:
    for steps in schedule.steps:
        seen: set[StageStep] = set()
        for step in steps:
            seen.add(step)
            if step.work is Work.BACKWARD:
                assert StageStep(Work.FORWARD, step.chunk, step.microbatch) in seen


@given(schedules())
def test_readers_are_the_opposite_of_needs(schedule: PipelineSchedule) -> None:
    for _, step in schedule.all_steps():
        assert all(step in schedule.readers(needed) for needed in schedule.needs(step))
        assert all(step in schedule.needs(reader) for reader in schedule.readers(step))


@given(STAGES, st.integers(1, 12))
def test_one_f_one_b_keeps_as_many_microbatches_as_stages_follow(stages: int, count: int) -> None:
    schedule = make_schedule(ONE_F_ONE_B, stages, count)
    for stage in range(stages):
        assert schedule.in_flight(stage) == min(count, stages - stage)


@given(STAGES, st.integers(1, 12))
def test_gpipe_keeps_all_microbatches(stages: int, count: int) -> None:
    schedule = make_schedule(GPIPE, stages, count)
    assert all(schedule.in_flight(stage) == count for stage in range(stages))


@given(schedules())
def test_a_schedule_comes_back_from_its_file(schedule: PipelineSchedule) -> None:
    assert read_schedule(schedule_text(schedule)) == schedule


@pytest.mark.parametrize(
    ("name", "stages", "microbatches", "chunks", "says"),
    [
        ("zigzag", 2, 2, 1, "No schedule is called 'zigzag'"),
        (GPIPE, 0, 2, 1, "0 stages"),
        (GPIPE, 2, 0, 1, "0 microbatches"),
        (ONE_F_ONE_B, 2, 2, 2, "has one chunk on each stage"),
        (INTERLEAVED, 4, 6, 2, "no multiple of 4 stages"),
    ],
)
def test_what_cannot_be_is_refused(
    name: str, stages: int, microbatches: int, chunks: int, says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        make_schedule(name, stages, microbatches, chunks=chunks)


def test_the_next_number_of_microbatches_is_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        make_schedule(INTERLEAVED, 4, 6, chunks=2)
    assert "give 8 microbatches" in str(refused.value.hint)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "steps": 3}'])
def test_another_file_is_no_schedule(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"not a schedule|version is 2"):
        read_schedule(text)


def test_a_schedule_without_a_step_is_refused() -> None:
    whole = make_schedule(GPIPE, 2, 2)
    cut = dataclasses.replace(whole, steps=(whole.steps[0][1:], whole.steps[1]))
    with pytest.raises(InvalidRequest, match="leaves out forward of chunk 0, microbatch 0"):
        read_schedule(schedule_text(cut))


def test_a_schedule_that_waits_for_ever_is_refused() -> None:
    whole = make_schedule(GPIPE, 2, 1)
    first, *rest = whole.steps[1]
    turned = dataclasses.replace(whole, steps=(whole.steps[0], (rest[0], first, *rest[1:])))
    with pytest.raises(InvalidRequest, match="waits for ever"):
        check_schedule(turned)
