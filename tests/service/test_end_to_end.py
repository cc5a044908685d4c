"""The real engine behind the real service: one good module, and those that are none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.harness import Server
from toast.plans.plan import Plan

MODULE = """\
module @step {
  func.func public @main(%x: tensor<512x256xf32>, %w: tensor<256x1024xf32>,
                         %v: tensor<1024x256xf32>) -> tensor<512x256xf32> {
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<512x256xf32>, tensor<256x1024xf32>) -> tensor<512x1024xf32>
    %a = stablehlo.tanh %h : tensor<512x1024xf32>
    %y = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0]
        : (tensor<512x1024xf32>, tensor<1024x256xf32>) -> tensor<512x256xf32>
    return %y : tensor<512x256xf32>
  }
}
"""

BYTECODE_START = b"ML\xefR\x0dStableHLO_v1.0.0\x00"

BAD: dict[str, tuple[str | bytes, str, str, str]] = {
    "not a module": ("once upon a time", "data=2", "invalid_module", ""),
    "truncated bytes": (BYTECODE_START, "data=2", "invalid_module", ""),
    "syntax error": (
        MODULE.replace("tanh %h :", "tanh %h ;"),
        "data=2",
        "invalid_module",
        "line 6, column 28",
    ),
    "no main": (MODULE.replace("@main", "@other"), "data=2", "unsupported_module", "main"),
    "dynamic": (MODULE.replace("512x", "?x"), "data=2", "unsupported_module", ""),
    "nothing divides": (MODULE, "data=7", "invalid_mesh", "7"),
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("real") / "data", workers=2) as server:
        yield server


def test_a_module_is_planned_and_comes_back_sharded(real: Server) -> None:
    job = real.submit(MODULE, mesh="data=2,model=2", rollouts=64, threads=1)
    done = real.finished(job["id"], seconds=120)
    assert done["state"] == "succeeded", done["error"]
    plan = Plan.from_json(real.client.get(done["links"]["plan"]).content)
    assert [(axis.name, axis.size) for axis in plan.mesh.axes] == [("data", 2), ("model", 2)]
    assert plan.module.sha256 == job["module"]
    assert plan.predicted.step_seconds <= plan.unsharded.step_seconds
    assert done["summary"]["step_seconds"] == plan.predicted.step_seconds
    sharded = real.client.get(done["links"]["module"])
    assert 'filename="sharded.mlir"' in sharded.headers["content-disposition"]
    assert "sdy.sharding" in sharded.text
    kinds = [event["event"] for event in real.events(job["id"])]
    assert "progress" in kinds


def test_a_mesh_is_chosen_a_bound_proved_and_another_choice_made(real: Server) -> None:
    settings = {"mesh": "auto:4", "rollouts": 64, "threads": 1, "device": "cpu"}
    job = real.submit(MODULE, **settings, prove=True, budget="20s")
    done = real.finished(job["id"], seconds=120)
    assert done["state"] == "succeeded", done["error"]
    plan = Plan.from_json(real.client.get(done["links"]["plan"]).content)
    assert [row.mesh for row in plan.meshes] == ["d0=4", "d0=2,d1=2"]
    assert plan.lower_bound is not None
    number = next(n for n, row in enumerate(plan.choices) if not row.chosen)
    choice = plan.choices[number]
    mesh = next(row.mesh for row in plan.meshes if row.chosen)
    decided = {"mesh": mesh, "device": "cpu", "decisions": choice.decisions}
    again = real.finished(real.submit(MODULE, **decided)["id"], seconds=120)
    assert again["state"] == "succeeded", again["error"]
    assert again["summary"]["step_seconds"] == choice.step_seconds
    assert again["summary"]["termination"] == "given"
    query = real.client.post(
        "/v1/plan",
        params=decided,
        content=MODULE.encode(),
        headers={"Accept": "application/json"},
    )
    assert Plan.from_json(query.content).predicted.peak_bytes == choice.peak_bytes


def test_modules_that_are_none_end_their_own_job_alone(real: Server) -> None:
    jobs = {}
    for name, (text, mesh, _, _) in BAD.items():
        body = {"module": real.upload(text), "mesh": mesh, "rollouts": 8, "threads": 1}
        jobs[name] = real.client.post("/v1/jobs", json=body).json()["id"]
    for name, (_, _, code, text) in BAD.items():
        job = real.finished(jobs[name], seconds=120)
        assert (name, job["state"]) == (name, "failed")
        assert (name, job["error"]["code"]) == (name, code), job["error"]
        assert 400 <= job["error"]["status"] < 500
        assert text in job["error"]["detail"], (name, job["error"])
        assert job["error"]["hint"], name
    assert real.client.get("/readyz").status_code == 200
