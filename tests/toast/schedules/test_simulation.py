"""The simulator against closed forms, and against each device's work done one by one."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.errors import InvalidRequest
from toast.schedules.orders import INTERLEAVED, NAMES, ONE_F_ONE_B, make_schedule
from toast.schedules.simulation import simulate
from toast.schedules.steps import PipelineSchedule, StageStep, Work
from toast.schedules.timeline import ChunkCosts, PipelineTimeline
from toast.schedules.trace import chrome_trace, timeline_plot

SECONDS = st.integers(1, 9).map(float)


def at_once(_: int, __: int, ___: float) -> float:
    return 0.0


@st.composite
def runs(draw: st.DrawFn) -> PipelineTimeline:
    name, stages = draw(st.sampled_from(NAMES)), draw(st.integers(1, 5))
    chunks = draw(st.integers(1, 3)) if name == INTERLEAVED else 1
    microbatches = draw(st.integers(1, 3)) * (stages if chunks > 1 else 1)
    schedule = make_schedule(
        name, stages, microbatches, chunks=chunks, training=draw(st.booleans())
    )
    cost = st.builds(
        ChunkCosts, forward=SECONDS, backward=SECONDS, optimizer=SECONDS, state_bytes=SECONDS,
        kept_bytes=SECONDS, forward_bytes=SECONDS, backward_bytes=SECONDS, sent_bytes=SECONDS,
        returned_bytes=SECONDS,
    )  # fmt: skip
    costs = [draw(cost) for _ in range(stages * chunks)]
    rate = draw(st.integers(0, 3))
    blocking, pace = draw(st.booleans()), draw(st.sampled_from([None, even, crowded]))
    return simulate(schedule, costs, lambda _, __, size: rate * size, blocking=blocking, pace=pace)


def even(_: int) -> float:
    return 1.0


def crowded(working: int) -> float:
    """A host that does one thing at full speed, and two at a time not twice as fast."""
    return 1.0 / working


@given(st.sampled_from(["gpipe", "1f1b"]), st.integers(1, 6), st.integers(1, 12), SECONDS, SECONDS)
def test_equal_stages_wait_as_the_papers_say(
    name: str, stages: int, microbatches: int, forward: float, backward: float
) -> None:
    costs = [ChunkCosts(forward=forward, backward=backward)] * stages
    timeline = simulate(make_schedule(name, stages, microbatches), costs, at_once)
    both = forward + backward
    assert timeline.seconds == pytest.approx((microbatches + stages - 1) * both)
    assert timeline.bubble == pytest.approx((stages - 1) / (microbatches + stages - 1))


@given(st.integers(1, 5), st.integers(1, 4), st.integers(2, 4))
def test_chunks_shorten_the_bubble_by_their_number(stages: int, rounds: int, chunks: int) -> None:
    schedule = make_schedule(INTERLEAVED, stages, rounds * stages, chunks=chunks)
    costs = [ChunkCosts(forward=1.0, backward=2.0)] * (stages * chunks)
    timeline = simulate(schedule, costs, at_once)
    expected = rounds * stages * chunks * 3.0 + (stages - 1) * 3.0
    assert timeline.seconds == pytest.approx(expected)


@given(runs())
def test_no_device_does_two_things_and_nothing_is_read_early(timeline: PipelineTimeline) -> None:
    schedule = timeline.schedule
    ended = {timed.step: timed.end for timed in timeline.steps}
    arrived = {(sent.step, sent.target): sent.end for sent in timeline.transfers}
    for stage in range(schedule.stages):
        own = list(timeline.of_stage(stage))
        assert [timed.step for timed in own] == list(schedule.steps[stage])
        assert all(one.end <= other.start for one, other in itertools.pairwise(own))
        for timed in own:
            for needed in schedule.needs(timed.step):
                far = schedule.stage_of(needed.chunk) != stage
                assert timed.start >= (arrived[needed, stage] if far else ended[needed])


@given(runs())
def test_everything_that_crosses_is_sent_once(timeline: PipelineTimeline) -> None:
    schedule = timeline.schedule
    expected = {
        (needed, stage)
        for stage, step in schedule.all_steps()
        for needed in schedule.needs(step)
        if schedule.stage_of(needed.chunk) != stage
    }
    sent = [(one.step, one.target) for one in timeline.transfers]
    assert sorted(sent, key=str) == sorted(expected, key=str)


@given(runs())
def test_a_line_carries_one_transfer_at_a_time(timeline: PipelineTimeline) -> None:
    stages = range(timeline.schedule.stages)
    for line in [(source, target) for source in stages for target in stages]:
        own = [sent for sent in timeline.transfers if (sent.source, sent.target) == line]
        assert all(one.end <= other.start for one, other in itertools.pairwise(own))


@given(runs())
def test_memory_returns_to_what_is_always_there(timeline: PipelineTimeline) -> None:
    schedule = timeline.schedule
    for stage in range(schedule.stages):
        curve = timeline.memory(stage)
        chunks = range(stage, schedule.last_chunk + 1, schedule.stages)
        state = sum(timeline.costs[chunk].state_bytes for chunk in chunks)
        assert curve[0][1] == curve[-1][1] == state
        assert [at for at, _ in curve] == sorted(at for at, _ in curve)
        kept = max(timeline.costs[chunk].kept_bytes for chunk in chunks)
        most = schedule.in_flight(stage) if schedule.training else 1
        working = max(
            max(timeline.costs[chunk].forward_bytes, timeline.costs[chunk].backward_bytes)
            for chunk in chunks
        )
        assert state < timeline.peak_bytes(stage) <= state + most * kept + working


def test_a_blocking_transfer_stops_both_ends() -> None:
    schedule = make_schedule(ONE_F_ONE_B, 2, 1, training=False)
    costs = [ChunkCosts(forward=1.0, sent_bytes=3.0)] * 2
    timeline = simulate(schedule, costs, lambda _, __, size: size, blocking=True)
    assert [(timed.start, timed.end) for timed in timeline.steps] == [(0.0, 1.0), (4.0, 5.0)]


def test_blocking_costs_what_the_work_could_have_hidden() -> None:
    schedule = make_schedule(ONE_F_ONE_B, 2, 8, training=False)
    costs = [ChunkCosts(forward=1.0, sent_bytes=1.0)] * 2
    beside = simulate(schedule, costs, lambda _, __, size: size)
    instead = simulate(schedule, costs, lambda _, __, size: size, blocking=True)
    assert (beside.seconds, instead.seconds) == (10.0, 17.0)


def test_the_example_of_distir() -> None:
    """Figure 2: two stages, two microbatches; the second forward step runs beside the first."""
    steps = (
        (("forward", 0), ("forward", 1), ("backward", 0), ("backward", 1)),
        (("forward", 0), ("backward", 0), ("forward", 1), ("backward", 1)),
    )
    schedule = PipelineSchedule(
        name="by hand", stages=2, microbatches=2, chunks=1, training=True,
        steps=tuple(
            (*(StageStep(Work(work), stage, number) for work, number in some),
             StageStep(Work.OPTIMIZER, stage))
            for stage, some in enumerate(steps)
        ),
    )  # fmt: skip
    timeline = simulate(schedule, [ChunkCosts(forward=1.0, backward=1.0)] * 2, at_once)
    starts = {(one.stage, one.step.work, one.step.microbatch): one.start for one in timeline.steps}
    assert starts[0, Work.FORWARD, 1] == starts[1, Work.FORWARD, 0] == 1.0
    assert starts[1, Work.BACKWARD, 0] == 2.0
    assert timeline.seconds == 6.0


def test_costs_have_to_be_as_many_as_chunks() -> None:
    with pytest.raises(InvalidRequest, match="1 costs were given for 2 chunks"):
        simulate(make_schedule(ONE_F_ONE_B, 2, 2), [ChunkCosts(forward=1.0)], at_once)


@given(runs())
def test_a_trace_has_every_step_and_transfer(timeline: PipelineTimeline) -> None:
    events = json.loads(chrome_trace(timeline))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(timeline.steps) + len(timeline.transfers)
    for timed in timeline.steps:
        found = [one for one in spans if one["name"] == str(timed.step) and one["tid"] == 0]
        assert [(one["pid"], one["ts"]) for one in found] == [(timed.stage, timed.start * 1e6)]


def test_the_drawing_says_what_it_shows() -> None:
    schedule = make_schedule(ONE_F_ONE_B, 4, 8)
    costs = [ChunkCosts(forward=0.001, backward=0.002, optimizer=0.0005)] * 4
    drawn = timeline_plot(simulate(schedule, costs, at_once))
    assert "4 stages for 33.5 ms" in drawn
    assert "stage 3" in drawn


@given(st.sampled_from(["gpipe", "1f1b"]), st.integers(1, 5), st.integers(1, 6), SECONDS, SECONDS)
def test_on_a_crowded_host_all_work_takes_its_sum(
    name: str, stages: int, microbatches: int, forward: float, backward: float
) -> None:
    costs = [ChunkCosts(forward=forward, backward=backward, optimizer=1.0)] * stages
    timeline = simulate(make_schedule(name, stages, microbatches), costs, at_once, pace=crowded)
    work = stages * (microbatches * (forward + backward) + 1.0)
    assert timeline.seconds == pytest.approx(work)


def test_work_is_slower_while_others_work() -> None:
    """Two stages: the first one's second forward runs beside the forward of the second."""
    costs = [ChunkCosts(forward=2.0), ChunkCosts(forward=4.0)]
    schedule = make_schedule("gpipe", 2, 2, training=False)
    timeline = simulate(schedule, costs, at_once, pace=crowded)
    ends = {(timed.stage, timed.step.microbatch): timed.end for timed in timeline.steps}
    # From 2 s on both run at half speed: 2 s of work each are done at 6 s, the rest at 8 s.
    assert ends == {(0, 0): 2.0, (0, 1): 6.0, (1, 0): 8.0, (1, 1): 12.0}


def test_transfers_share_the_host_too() -> None:
    costs = [ChunkCosts(forward=2.0, sent_bytes=4.0), ChunkCosts(forward=1.0)]
    schedule = make_schedule("gpipe", 2, 2, training=False)
    alone = simulate(schedule, costs, lambda _, __, size: size)
    shared = simulate(schedule, costs, lambda _, __, size: size, pace=crowded)
    assert alone.seconds == 2 + 4 + 4 + 1
    assert shared.seconds == 2 * 2 + 2 * 4 + 2 * 1
