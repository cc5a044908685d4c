"""Results that are given again: to whom, from whom, and when not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import Server, as_object, fake_engine
from toast.request.request import PlanRequest
from toast.service.web.reuse import cache_keys

MODULE = "a" * 64


def ran(server: Server, text: str, **fields: Any) -> dict[str, Any]:
    return server.finished(server.submit(text, **fields)["id"])


def test_an_equal_request_is_answered_at_once(server: Server) -> None:
    first = ran(server, "success cache-1", seed=3)
    again = server.submit("success cache-1", seed=3, cache="exact")
    assert (again["state"], again["cached_from"], again["attempt"]) == (
        "succeeded", first["id"], 0,
    )  # fmt: skip
    assert again["summary"] == first["summary"]
    events = server.events(again["id"])
    assert [event["data"]["state"] for event in events] == ["succeeded"]
    for name in ("plan", "module"):
        old, new = (server.client.get(job["links"][name]) for job in (first, again))
        assert old.content == new.content
    assert 'toast_results_reused_total{cache="exact"} 1.0' in server.client.get("/metrics").text


def test_nothing_is_reused_unasked(server: Server) -> None:
    ran(server, "success cache-2")
    assert ran(server, "success cache-2")["cached_from"] is None
    assert ran(server, "success cache-2", cache="off")["cached_from"] is None


@pytest.mark.parametrize("field", [{"seed": 4}, {"budget": 3.0}, {"rollouts": 7}, {"threads": 2}])
def test_exact_means_the_same_search_and_any_the_same_question(
    server: Server, field: dict[str, Any]
) -> None:
    text = f"success cache-3 {field}"
    first = ran(server, text)
    assert ran(server, text, cache="any", **field)["cached_from"] == first["id"]
    assert ran(server, text, cache="exact", **field)["cached_from"] is None


@pytest.mark.parametrize(
    "field", [{"mesh": "model=2"}, {"device": "h100-80gb"}, {"memory": "1GiB"}, {"form": "closed"}]
)
def test_another_question_is_not_answered(server: Server, field: dict[str, Any]) -> None:
    text = f"success cache-4 {field}"
    ran(server, text)
    assert ran(server, text, cache="any", **field)["cached_from"] is None


def test_another_module_is_another_question() -> None:
    request = PlanRequest(mesh="data=2")
    assert cache_keys(MODULE, request) == cache_keys(MODULE, request)
    assert not set(cache_keys(MODULE, request)) & set(cache_keys("b" * 64, request))


def test_a_failed_or_cancelled_job_has_nothing_to_give(server: Server) -> None:
    ran(server, "error cache-5")
    assert ran(server, "error cache-5", cache="any")["state"] == "failed"
    job = server.submit("slow 60 cache-5")
    server.until_progress(job["id"])
    server.client.post(f"/v1/jobs/{job['id']}/cancel")
    assert server.finished(job["id"])["links"]["plan"]
    again = server.submit("slow 60 cache-5", cache="any")
    assert again["cached_from"] is None
    server.client.post(f"/v1/jobs/{again['id']}/cancel")
    server.finished(again["id"])


def test_a_result_whose_job_or_files_are_gone_is_made_again(server: Server) -> None:
    first = ran(server, "success cache-6")
    digest = server.client.get(first["links"]["module"]).headers["etag"].strip('"')
    (server.data / "artifacts" / digest[:2] / digest).unlink()
    second = ran(server, "success cache-6", cache="exact")
    assert (second["cached_from"], second["state"]) == (None, "succeeded")
    third = ran(server, "success cache-6", cache="exact")
    assert third["cached_from"] == second["id"]
    for job in (first, second):
        server.client.delete(f"/v1/jobs/{job['id']}")
    assert server.client.get(third["links"]["module"]).status_code == 200
    assert ran(server, "success cache-6", cache="exact")["cached_from"] == third["id"]


def test_an_idempotency_key_comes_before_the_cache(server: Server) -> None:
    ran(server, "success cache-7")
    body = {"module": server.upload("success cache-7"), "mesh": "data=2"}

    def ask(**fields: str) -> Any:
        headers = {"Idempotency-Key": "cache-7"}
        return server.client.post("/v1/jobs", json={**body, **fields}, headers=headers)

    first = as_object(ask(cache="exact"))
    again = ask(cache="exact")
    assert first["cached_from"] is not None
    assert (again.json()["id"], again.headers["idempotency-replayed"]) == (first["id"], "true")
    assert ask().json()["code"] == "idempotency_mismatch"


def test_one_call_may_be_answered_from_the_cache(server: Server) -> None:
    first = ran(server, "success cache-8")
    answer = server.client.post(
        "/v1/plan", params={"mesh": "data=2", "cache": "any"}, content=b"success cache-8"
    )
    assert answer.text == "// sharded\nsuccess cache-8"
    assert answer.headers["toast-cached-from"] == first["id"]


def test_a_search_that_the_deadline_cut_off_is_not_exact(tmp_path: Path) -> None:
    directory = tmp_path
    engine = fake_engine(directory / "engine")
    with Server(directory / "data", engine_command=engine, deadline=0.5, drain=1.0) as server:
        first = ran(server, "slow 3")
        assert first["summary"]["termination"] == "deadline"
        assert server.submit("slow 3", cache="any")["cached_from"] == first["id"]
        assert server.submit("slow 3", cache="exact")["cached_from"] is None
