"""The search over degrees on the module of a real step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import bench_pipeline
from toast.analysis.errors import InvalidRequest
from toast.pipeline.pipelining.degrees import Degrees
from toast.pipeline.pipelining.plan_pipeline import plan_pipeline
from toast.pipeline.pipelining.search_degrees import until_slower
from toast.plans.pipeline_answer import PipelineAnswer
from toast.request.pipeline_request import make_pipeline_request


def test_the_best_way_is_planned_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    module = small_transformer(monkeypatch, layers=4, batch=8)
    request = make_pipeline_request(devices=4, microbatches=4, rollouts=20)
    planned = plan_pipeline(module, request, lambda _, __: None)
    answer = planned.answer
    best = answer.tried[0]
    assert {one.stages for one in answer.tried} == {1, 2, 4}
    assert len(answer.stages) == best.stages
    assert (answer.mesh, answer.chunks) == (best.mesh, best.chunks)
    assert best.step_seconds == min(one.step_seconds for one in answer.tried if one.fits)
    assert answer.schedule.step_seconds == pytest.approx(best.step_seconds, rel=0.2)


@pytest.mark.parametrize("setting", [{"stages": 2}, {"chunks": 2}, {"mesh": "data=2"}])
def test_what_is_searched_cannot_be_given(setting: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=f"With devices, {next(iter(setting))} cannot"):
        make_pipeline_request(devices=4, microbatches=4, **setting)


def test_a_pipeline_needs_stages_or_devices() -> None:
    with pytest.raises(InvalidRequest, match="needs a number of stages"):
        make_pipeline_request(microbatches=4)


def test_the_axis_pipe_of_a_mesh_is_its_stages() -> None:
    given = make_pipeline_request(mesh="pipe=4,data=2,model=2", microbatches=8)
    assert (given.stages, given.mesh) == (4, "data=2,model=2")
    alone = make_pipeline_request(mesh="pipe=4", microbatches=8)
    assert (alone.stages, alone.mesh) == (4, None)
    with pytest.raises(InvalidRequest, match="4 stages, and stages=2"):
        make_pipeline_request(mesh="pipe=4,data=2", stages=2, microbatches=8)


def test_the_fastest_number_of_microbatches_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    module = small_transformer(monkeypatch, layers=2, batch=8)

    def planned(microbatches: int | str) -> PipelineAnswer:
        request = make_pipeline_request(
            stages=2, microbatches=microbatches, rollouts=20, device="tpu-v5e"
        )
        return plan_pipeline(module, request, lambda _, __: None).answer

    answer = planned("auto")
    tried = [one.microbatches for one in answer.tried]
    assert set(tried) <= {1, 2, 4, 8}
    best = answer.tried[0]
    assert answer.microbatches == best.microbatches
    assert best.step_seconds == min(one.step_seconds for one in answer.tried)
    # So small a step takes as long as its programs have overheads: fewer of them are faster.
    assert answer.schedule.step_seconds <= planned(8).schedule.step_seconds
    assert {(one.stages, one.mesh, one.chunks) for one in answer.tried} == {(2, None, 1)}


def test_memory_asks_for_more_microbatches(monkeypatch: pytest.MonkeyPatch) -> None:
    module = small_transformer(monkeypatch, layers=2, batch=8)
    device = "tpu-v5e"
    whole = plan_pipeline(
        module, make_pipeline_request(stages=2, device=device), lambda _, __: None
    ).answer
    least = min(one.peak_bytes for one in whole.tried)
    assert least < whole.tried[0].peak_bytes
    tight = make_pipeline_request(stages=2, device=device, memory=f"{least}B")
    answer = plan_pipeline(module, tight, lambda _, __: None).answer
    assert answer.microbatches > whole.microbatches
    assert answer.tried[0].fits


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=9))
def test_numbers_are_tried_until_two_are_slower(rows: list[tuple[int, bool]]) -> None:
    ways = [[way(seconds, fits=fits)] for seconds, fits in rows]
    taken = [some[0] for some in until_slower(ways, MEMORY)]
    assert taken == [some[0] for some in ways[: len(taken)]]
    if len(taken) < len(ways):
        before, last = taken[:-2], taken[-2:]
        best = min(one.rank(MEMORY) for one in before)
        assert all(one.rank(MEMORY) >= best and one.peak_bytes <= MEMORY for one in last)


def test_numbers_that_no_schedule_suits_are_passed_over() -> None:
    ways = [[], [way(3)], [], [way(2)], [way(5)], [], [way(5)], [way(1)]]
    assert sum(1 for _ in until_slower(ways, MEMORY)) == 7


MEMORY = 10.0


def way(seconds: float, *, fits: bool = True) -> Degrees:
    return Degrees(
        microbatches=1, stages=1, mesh=None, chunks=1, cuts=(), schedule="gpipe",
        seconds=seconds, idle=0.0, peak_bytes=MEMORY if fits else 2 * MEMORY,
    )  # fmt: skip


def small_transformer(monkeypatch: pytest.MonkeyPatch, *, layers: int, batch: int) -> bytes:
    sizes = {"WIDTH": 16, "HEADS": 2, "BATCH": batch, "SEQUENCE": 8, "VOCABULARY": 32}
    for constant, value in sizes.items():
        monkeypatch.setattr(bench_pipeline, constant, value)
    return bench_pipeline.transformer(layers)
