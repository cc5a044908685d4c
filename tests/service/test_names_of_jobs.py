"""What jobs are called, how they are found by it, and how two plans are compared over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.harness import Server, check_problem, fake_engine
from toast.service.ledger.records import NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.web.naming import own_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b"module @jit_step attributes {a = 1} {\n", "jit_step"),
        (b"// a comment\nmodule @gemma.2b {\n", "gemma.2b"),
        (b'module @"a name" {\n', "a name"),
        (b"module {\n", ""),
        (b"ML\xefR\x0dStableHLO module @inside\x00", ""),
        (b"", ""),
        (b"module @" + b"x" * 5000 + b" {", "x" * 200),
    ],
)
def test_a_module_says_its_own_name(tmp_path: Path, text: bytes, name: str) -> None:
    path = tmp_path / "module"
    path.write_bytes(text)
    assert own_name(path) == name


def test_no_file_has_no_name(tmp_path: Path) -> None:
    assert own_name(tmp_path / "none") == ""


@pytest.mark.parametrize("fields", [{}, {"name": "  mine  "}])
def test_a_name_is_given_or_the_modules_own(server: Server, fields: dict[str, str]) -> None:
    job = server.submit("success\nmodule @theirs {}", **fields)
    assert job["name"] == ("mine" if fields else "theirs")
    assert "name" not in job["request"]
    assert server.finished(job["id"])["name"] == job["name"]


def test_the_query_of_one_call_gives_a_name(server: Server) -> None:
    answer = server.client.post("/v1/plan?mesh=data=2&name=by+curl", content=b"success")
    assert answer.status_code == 200
    assert server.job(answer.headers["toast-job"])["name"] == "by curl"


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "\x00", "x" * 201])
def test_a_name_that_is_none_is_refused(server: Server, name: str) -> None:
    body = {"module": server.upload("success"), "mesh": "data=2", "name": name}
    check_problem(server.client.post("/v1/jobs", json=body), 422, "invalid_request", "name")


def test_a_name_does_not_make_another_job(server: Server) -> None:
    module = server.upload("success")
    headers = {"Idempotency-Key": "named"}
    ids = set()
    for name in ("one", "two"):
        body = {"module": module, "mesh": "data=2", "name": name}
        ids.add(server.client.post("/v1/jobs", json=body, headers=headers).json()["id"])
    assert len(ids) == 1


def test_jobs_are_found_by_a_part_of_their_name(store: SqlJobStore) -> None:
    store.add_module("a" * 64, 1)
    for name in ("Gemma 2B", "gemma_7b", "100% sure", "", "llama"):
        new = NewJob(module="a" * 64, request={"mesh": "data=2"}, name=name)
        store.create(new, max_queued=10)

    def found(part: str) -> list[str]:
        return [job.name for job in store.page(limit=10, before=None, state=None, name=part)]

    assert found("GEMMA") == ["gemma_7b", "Gemma 2B"]
    assert found("a_7") == ["gemma_7b"]
    assert found("%") == ["100% sure"], "signs of SQL are letters"
    assert found("nothing") == []
    assert store.page(limit=1, before=None, state=None)[0].request == {"mesh": "data=2"}


def test_pages_of_a_filtered_list_go_on(server: Server) -> None:
    for number in range(3):
        server.submit("success", name=f"paged & {number}")
    page = server.client.get("/v1/jobs", params={"name": "paged &", "limit": 2}).json()
    rest = server.client.get(page["next"]).json()
    names = [job["name"] for job in (*page["jobs"], *rest["jobs"])]
    assert names == ["paged & 2", "paged & 1", "paged & 0"]
    assert rest["next"] is None


def test_two_plans_are_compared(tmp_path: Path) -> None:
    engine = fake_engine(tmp_path / "engine")
    template = tmp_path / "engine" / "template.json"
    with Server(tmp_path / "data", engine_command=engine) as server:
        first = server.finished(server.submit("success")["id"])["id"]
        document = json.loads(template.read_text())
        document["predicted"]["step_seconds"] = 0.5
        template.write_text(json.dumps(document))
        second = server.finished(server.submit("success", seed=1)["id"])["id"]
        document["arguments"][0]["name"] = "another"
        template.write_text(json.dumps(document))
        third = server.finished(server.submit("success", seed=2)["id"])["id"]
        found = server.client.get(f"/v1/jobs/{first}/diff/{second}").json()
        assert found["figures"][0] == {"what": "step", "unit": "seconds", "a": 0.25, "b": 0.5}
        assert not server.client.get(f"/v1/jobs/{first}/diff/{first}").json()["figures"]
        other = server.client.get(f"/v1/jobs/{first}/diff/{third}")
        check_problem(other, 400, "invalid_request", "different modules")
        check_problem(server.client.get(f"/v1/jobs/{first}/diff/{'0' * 32}"), 404, "unknown_job")


@pytest.mark.parametrize("path", ["/", "/ui/job.html", "/ui/jobs.js", "/ui/style.css"])
def test_pages_are_sent_once(server: Server, path: str) -> None:
    answer = server.client.get(path)
    assert answer.status_code == 200
    again = server.client.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/ui/none.js", "/ui/..%2fapp.py", "/ui/%2e%2e/app.py"])
def test_no_other_file_is_a_page(server: Server, path: str) -> None:
    assert server.client.get(path).status_code == 404
