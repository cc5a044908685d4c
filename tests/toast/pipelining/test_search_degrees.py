"""The search over degrees on the module of a real step."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import bench_pipeline
from toast.analysis.errors import InvalidRequest
from toast.pipeline.pipelining.plan_pipeline import plan_pipeline
from toast.request.pipeline_request import make_pipeline_request


def test_the_best_way_is_planned_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for constant, value in {"WIDTH": 16, "HEADS": 2, "BATCH": 8, "SEQUENCE": 8}.items():
        monkeypatch.setattr(bench_pipeline, constant, value)
    monkeypatch.setattr(bench_pipeline, "VOCABULARY", 32)
    request = make_pipeline_request(devices=4, microbatches=4, rollouts=20)
    planned = plan_pipeline(bench_pipeline.transformer(4), request, lambda _, __: None)
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
