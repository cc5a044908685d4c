"""Modules and jobs over HTTP, from upload to deletion."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest

from tests.service.harness import Server, as_object, sample_plan
from toast.plans.plan import Plan

UNKNOWN = "f" * 64


def test_a_module_is_new_once(server: Server) -> None:
    data = b"success 100"
    first = server.client.post("/v1/modules", content=data)
    assert (first.status_code, first.json()) == (
        201, {"id": hashlib.sha256(data).hexdigest(), "size": len(data)},
    )  # fmt: skip
    second = server.client.post("/v1/modules", content=data)
    assert (second.status_code, second.json()) == (200, first.json())


def test_a_module_may_come_in_chunks(server: Server) -> None:
    parts = [b"success", b" ", b"x" * (3 << 20)]
    answer = server.client.post("/v1/modules", content=iter(parts))
    assert answer.json()["id"] == hashlib.sha256(b"".join(parts)).hexdigest()


def test_a_job_succeeds_and_leaves_its_files(server: Server) -> None:
    made = server.client.post(
        "/v1/jobs", json={"module": server.upload("success"), "mesh": "data=2,model=4"}
    )
    assert made.status_code == 202
    job = as_object(made)
    assert made.headers["location"] == f"/v1/jobs/{job['id']}"
    assert job["state"] == "queued"
    assert job["request"]["mesh"] == "data=2,model=4"
    done = server.finished(job["id"])
    assert (done["state"], done["attempt"], done["error"]) == ("succeeded", 1, None)
    assert done["summary"]["fits"] is True
    assert done["created"] <= done["started"] <= done["finished"]
    assert done["created"].endswith("Z")
    plan = server.client.get(done["links"]["plan"])
    assert plan.headers["content-type"] == "application/json"
    assert Plan.from_json(plan.content) == sample_plan()
    module = server.client.get(done["links"]["module"])
    assert module.content == b"// sharded\nsuccess"


@pytest.mark.parametrize(
    ("seed", "name", "media"),
    [(0, "sharded.mlir", "text/plain; charset=utf-8"),
     (7, "sharded.mlirbc", "application/octet-stream")],
)  # fmt: skip
def test_the_module_says_what_form_it_has(server: Server, seed: int, name: str, media: str) -> None:
    job = server.finished(server.submit("success", seed=seed)["id"])
    answer = server.client.get(f"/v1/jobs/{job['id']}/module")
    assert answer.headers["content-type"] == media
    assert f'filename="{name}"' in answer.headers["content-disposition"]
    digest = hashlib.sha256(answer.content).hexdigest()
    assert answer.headers["etag"] == f'"{digest}"'


def test_people_may_write_units(server: Server) -> None:
    job = server.submit("success", memory="16GiB", budget="500ms", seed=3, threads=1)
    assert job["request"] == {
        "mesh": "data=2", "device": "tpu-v5e", "memory": 16 << 30, "seed": 3,
        "rollouts": None, "budget": 0.5, "threads": 1, "planner": "mcts",
        "pins": [], "forbid": [], "penalty": None, "overlap": 0.0,
        "confirm": None, "confirm_time": None,
        "decisions": None, "prove": False, "refine": False, "without": [],
        "advice": True, "form": None, "target_version": None,
        "recompute": [], "microbatches": None, "batch": None, "accumulate": "program",
        "fit": False, "slices": None, "searches": 1,
    }  # fmt: skip
    plain = server.submit("success", memory=1 << 30, budget=2)
    assert (plain["request"]["memory"], plain["request"]["budget"]) == (1 << 30, 2.0)


def test_pins_travel_to_the_engine(server: Server) -> None:
    pins = ["params/**/kernel=None,model", "0=data"]
    job = server.submit("success", pins=pins, forbid=["batch/*=model"])
    assert (job["request"]["pins"], job["request"]["forbid"]) == (pins, ["batch/*=model"])
    answer = server.client.post(
        "/v1/plan", params={"mesh": "data=2", "pins": pins}, content=b"success"
    )
    assert answer.status_code == 200
    found = server.client.get(f"/v1/jobs/{answer.headers['Toast-Job']}").json()
    assert found["request"]["pins"] == pins


def test_the_engine_gets_the_request(server: Server) -> None:
    job = server.finished(server.submit("success", device="h100-80gb", seed=5)["id"])
    plan = server.client.get(f"/v1/jobs/{job['id']}/plan").json()
    assert (plan["device"], plan["search"]["seed"]) == ("h100-80gb", 5)


FAILURES: list[tuple[str, str, int, str]] = [
    ("error", "invalid_module", 422, "Line 3, column 7: no."),
    ("abort", "engine_crashed", 422, "Check failed: rank == 2"),
    ("invalid", "internal", 500, "does not fit its schema"),
    ("silent", "engine_failed", 500, "no answer"),
    ("killed", "worker_lost", 503, "vanished 3 times"),
]


@pytest.mark.parametrize(("mode", "code", "status", "text"), FAILURES)
def test_a_failed_job_holds_its_problem(
    server: Server, mode: str, code: str, status: int, text: str
) -> None:
    job = server.finished(server.submit(mode)["id"])
    error = job["error"]
    assert (job["state"], error["code"], error["status"]) == ("failed", code, status)
    assert text in error["detail"]
    assert error["hint"]
    assert error["instance"] == f"/v1/jobs/{job['id']}"
    assert set(error) == {"type", "title", "status", "detail", "code", "hint", "instance"}
    refused = server.client.get(f"/v1/jobs/{job['id']}/plan")
    assert (refused.status_code, refused.json()["code"]) == (404, "no_result")
    assert server.client.get("/healthz").status_code == 200


def test_a_killed_worker_is_replaced(server: Server) -> None:
    job = server.finished(server.submit("killed-once")["id"])
    assert (job["state"], job["attempt"], job["lost_workers"], job["failures"]) == (
        "succeeded", 2, 1, 0,
    )  # fmt: skip


def test_cancelling_keeps_the_best_plan_so_far(server: Server) -> None:
    job = server.submit("slow 60")
    server.until_progress(job["id"])
    answer = server.client.post(f"/v1/jobs/{job['id']}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelling")
    done = server.finished(job["id"])
    assert (done["state"], done["error"]) == ("cancelled", None)
    assert server.client.get(done["links"]["plan"]).status_code == 200
    again = server.client.post(f"/v1/jobs/{job['id']}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "job_finished")


def test_cancelling_a_waiting_job_is_immediate(server: Server) -> None:
    running = [server.submit("slow 60") for _ in range(2)]
    for job in running:
        server.until(job["id"], "running")
    waiting = server.submit("success")
    answer = server.client.post(f"/v1/jobs/{waiting['id']}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    refused = server.client.get(f"/v1/jobs/{waiting['id']}/module")
    assert (refused.status_code, refused.json()["code"]) == (404, "no_result")
    for job in running:
        server.client.post(f"/v1/jobs/{job['id']}/cancel")
        server.finished(job["id"])


def test_a_deaf_engine_is_killed(server: Server) -> None:
    job = server.submit("hang")
    server.until(job["id"], "running")
    server.client.post(f"/v1/jobs/{job['id']}/cancel")
    done = server.finished(job["id"])
    assert (done["state"], done["links"].get("plan")) == ("cancelled", None)


def test_deletion_takes_the_files_that_nobody_shares(server: Server) -> None:
    first, second = (server.finished(server.submit("success 5")["id"]) for _ in range(2))
    assert server.client.delete(f"/v1/jobs/{first['id']}").status_code == 204
    gone = server.client.get(f"/v1/jobs/{first['id']}")
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_job")
    module = server.client.get(second["links"]["module"])
    assert module.status_code == 200
    digest = module.headers["etag"].strip('"')
    path = server.data / "artifacts" / digest[:2] / digest
    assert path.exists()
    assert server.client.delete(f"/v1/jobs/{second['id']}").status_code == 204
    assert not path.exists()


def test_a_running_job_is_not_deleted(server: Server) -> None:
    job = server.submit("slow 60")
    server.until(job["id"], "running")
    refused = server.client.delete(f"/v1/jobs/{job['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "job_not_finished")
    early = server.client.get(f"/v1/jobs/{job['id']}/plan")
    assert (early.status_code, early.json()["code"]) == (409, "job_not_finished")
    server.client.post(f"/v1/jobs/{job['id']}/cancel")
    server.finished(job["id"])


def test_an_idempotency_key_makes_one_job(server: Server) -> None:
    body = {"module": server.upload("success"), "mesh": "data=2"}

    def ask(body: dict[str, Any]) -> Any:
        return server.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "night-1"})

    first, second = ask(body), ask(body)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    third = ask(body | {"seed": 1})
    assert (third.status_code, third.json()["code"]) == (422, "idempotency_mismatch")


def test_the_etag_changes_with_the_job(server: Server) -> None:
    job = server.submit("slow 60")
    path = f"/v1/jobs/{job['id']}"
    running = server.client.get(path, params={"wait": 0})
    done = server.client.post(f"{path}/cancel")
    assert done.headers["etag"] != running.headers["etag"]
    server.finished(job["id"])
    tag = server.client.get(path).headers["etag"]
    same = server.client.get(path, headers={"If-None-Match": tag})
    assert (same.status_code, same.headers["etag"], same.content) == (304, tag, b"")
    other = server.client.get(path, headers={"If-None-Match": '"x"'})
    assert other.status_code == 200


def test_a_long_poll_answers_at_the_next_change(server: Server) -> None:
    job = server.submit("slow 60")
    path = f"/v1/jobs/{job['id']}"
    server.until(job["id"], "running")
    tag = server.client.get(path).headers["etag"]
    changed = server.client.get(path, params={"wait": 20}, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag
    assert changed.json()["state"] == "running"
    began = time.monotonic()
    still = server.client.get(path, params={"wait": 0.2})
    assert still.json()["state"] == "running"
    assert time.monotonic() - began >= 0.2
    server.client.post(f"{path}/cancel")
    assert server.finished(job["id"])["state"] == "cancelled"


def test_pages_go_through_all_jobs_once(server: Server) -> None:
    made = [server.finished(server.submit("success")["id"])["id"] for _ in range(3)]
    seen: list[str] = []
    path: str | None = "/v1/jobs?limit=2&state=succeeded"
    while path is not None:
        page = as_object(server.client.get(path))
        assert len(page["jobs"]) <= 2
        assert {job["state"] for job in page["jobs"]} == {"succeeded"}
        seen += [job["id"] for job in page["jobs"]]
        path = page["next"]
    assert seen[:3] == made[::-1]
    assert len(seen) == len(set(seen))


def test_the_catalogue_is_listed(server: Server) -> None:
    devices = {d["name"]: d for d in server.client.get("/v1/devices").json()["devices"]}
    assert devices["tpu-v5e"]["kind"] == "tpu"
    assert devices["tpu-v5e"]["memory_bytes"] > 15 << 30
    networks = {n["name"]: n for n in devices["a100-40gb"]["networks"]}
    assert networks["nvlink"]["span"] == 8
    assert networks["nvlink"]["bandwidth"] > networks["infiniband"]["bandwidth"] > 1e9
