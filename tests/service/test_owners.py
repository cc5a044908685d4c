"""Owners: what they see, what they may use, whose turn it is, and who did what."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.harness import ROOT, Server, as_object, check_problem, fake_engine
from toast.service import problems
from toast.service.access.audit import AuditTrail
from toast.service.access.callers import Caller, Scope
from toast.service.access.key_file import add_key
from toast.service.ledger.owners import Quota
from toast.service.ledger.records import Claim, JobResult, NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.ledger.states import State

MODULE, OTHER = "a" * 64, "d" * 64


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A key of each of two owners, a second one of the first, and one of an admin."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    both = frozenset({Scope.SUBMIT, Scope.READ})
    callers = {
        "ann": Caller(name="ann", owner="one", scopes=both),
        "ann2": Caller(name="ann2", owner="one", scopes=both),
        "bob": Caller(name="bob", owner="two", scopes=both),
        "root": Caller(name="root", owner="ops", scopes=frozenset({Scope.ADMIN})),
    }
    return {"file": str(file)} | {name: add_key(file, caller) for name, caller in callers.items()}


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str]
) -> Iterator[dict[str, Server]]:
    """One server, as each key sees it; under the most generous umask."""
    directory = tmp_path_factory.mktemp("shared")
    engine = fake_engine(directory / "engine")
    settings: dict[str, Any] = {
        "engine_command": engine, "keys": keys["file"], "workers": 2, "drain": 1.0,
        "owner_queued": 2, "owner_running": 1, "owner_stored": 20_000, "umask": 0,
    }  # fmt: skip
    with Server(directory / "data", **settings) as running:
        views = {}
        for name in ("ann", "ann2", "bob", "root"):
            view = Server(directory / "data")
            headers = {"Authorization": f"Bearer {keys[name]}"}
            view.client = httpx2.Client(
                base_url=running.url, timeout=30, trust_env=False, headers=headers
            )
            views[name] = view
        yield views
        for view in views.values():
            view.client.close()


def ids(server: Server) -> set[str]:
    return {job["id"] for job in as_object(server.client.get("/v1/jobs"))["jobs"]}


def test_the_jobs_of_others_are_not_there(shared: dict[str, Server]) -> None:
    ann, bob = shared["ann"], shared["bob"]
    job = ann.submit("success")["id"]
    ann.finished(job)
    path = f"/v1/jobs/{job}"
    for method, suffix in (("GET", ""), ("GET", "/events"), ("GET", "/plan"), ("GET", "/module"),
                           ("GET", "/report"), ("POST", "/cancel"), ("DELETE", "")):  # fmt: skip
        answer = bob.client.request(method, path + suffix)
        check_problem(answer, 404, "unknown_job")
        nothing = bob.client.request(method, f"/v1/jobs/{'0' * 32}{suffix}")
        assert answer.json()["detail"].replace(job, "0" * 32) == nothing.json()["detail"]
    assert job not in ids(bob)
    assert job in ids(shared["ann2"])
    assert job in ids(shared["root"])
    assert shared["root"].client.delete(path).status_code == 204


def test_the_modules_of_others_are_not_there(shared: dict[str, Server]) -> None:
    ann, bob = shared["ann"], shared["bob"]
    first = ann.client.post("/v1/modules", content=b"success // of ann")
    assert first.status_code == 201
    body = {"module": first.json()["id"], "mesh": "data=2"}
    check_problem(bob.client.post("/v1/jobs", json=body), 422, "unknown_module")
    assert bob.client.post("/v1/modules", content=b"success // of ann").status_code == 201
    assert bob.client.post("/v1/modules", content=b"success // of ann").status_code == 200
    job = as_object(bob.client.post("/v1/jobs", json=body))
    assert bob.finished(job["id"])["state"] == "succeeded"
    used = shared["root"].client.post("/v1/jobs", json=body)
    assert shared["root"].finished(used.json()["id"])["state"] == "succeeded"


def test_a_module_is_deleted_for_its_owner(shared: dict[str, Server]) -> None:
    ann, bob = shared["ann"], shared["bob"]
    module = ann.upload("success // of both")
    check_problem(bob.client.get(f"/v1/modules/{module}"), 404, "module_not_found")
    check_problem(bob.client.delete(f"/v1/modules/{module}"), 404, "module_not_found")
    bob.upload("success // of both")
    job = as_object(bob.client.post("/v1/jobs", json={"module": module, "mesh": "data=2"}))["id"]
    bob.finished(job)
    assert as_object(ann.client.get(f"/v1/modules/{module}"))["jobs"] == 0
    assert as_object(bob.client.get(f"/v1/modules/{module}"))["jobs"] == 1
    assert ann.client.delete(f"/v1/modules/{module}").status_code == 204
    check_problem(ann.client.get(f"/v1/modules/{module}"), 404, "module_not_found")
    check_problem(bob.client.delete(f"/v1/modules/{module}"), 409, "module_in_use")
    assert bob.client.get(f"/v1/jobs/{job}/plan").status_code == 200
    assert bob.client.delete(f"/v1/jobs/{job}").status_code == 204
    stored = bob.data / "artifacts" / module[:2] / module
    assert stored.exists()
    assert bob.client.delete(f"/v1/modules/{module}").status_code == 204
    assert not stored.exists()


def test_a_result_is_not_given_to_another_owner(shared: dict[str, Server]) -> None:
    ann, bob = shared["ann"], shared["bob"]
    first = ann.submit("success // cached", cache="any")["id"]
    ann.finished(first)
    again = shared["ann2"].submit("success // cached", cache="any")
    assert again["state"] == "succeeded"
    other = bob.submit("success // cached", cache="any")
    assert bob.finished(other["id"])["attempt"] == 1


def test_no_owner_takes_everything(shared: dict[str, Server]) -> None:
    ann, bob = shared["ann"], shared["bob"]
    running = ann.submit("slow 60")["id"]
    ann.until(running, "running")
    waiting = [ann.submit("success")["id"], shared["ann2"].submit("success")["id"]]
    answer = ann.client.post("/v1/jobs", json={"module": ann.upload("success"), "mesh": "data=2"})
    check_problem(answer, 429, "quota_exceeded", "queued")
    assert (answer.headers["toast-quota"], answer.headers["retry-after"]) == ("queued", "10")
    # A worker is free, and ann has one job running: bob's turn comes first, ann's waits.
    assert bob.finished(bob.submit("success")["id"])["state"] == "succeeded"
    assert [ann.job(job)["state"] for job in waiting] == ["queued", "queued"]
    shared["root"].client.post(f"/v1/jobs/{running}/cancel")
    for job in (running, *waiting):
        ann.finished(job)


def test_what_is_stored_has_an_end(shared: dict[str, Server]) -> None:
    bob = shared["bob"]
    answer = bob.client.post("/v1/modules", content=b"y" * 20_001)
    check_problem(answer, 429, "quota_exceeded", "stored")
    parts = (b"y" * 9000 for _ in range(3))
    answer = bob.client.post("/v1/modules", content=parts)
    check_problem(answer, 429, "quota_exceeded", "stored")
    assert answer.headers["toast-quota"] == "stored"
    assert not list((bob.data / "artifacts" / "incoming").iterdir())


def test_everything_is_closed_to_others(shared: dict[str, Server]) -> None:
    ann = shared["ann"]
    job = ann.submit("slow 60")["id"]
    ann.until_progress(job)
    found = {path.relative_to(ann.data): path for path in (ann.data, *ann.data.rglob("*"))}
    modes = {str(name): stat.S_IMODE(path.stat().st_mode) for name, path in found.items()}
    ann.client.post(f"/v1/jobs/{job}/cancel")
    ann.finished(job)
    assert {"toast.db", "audit.jsonl", f"work/{job}.1/module"} <= set(modes)
    # What the test's own server script writes is not the service's.
    open_ones = {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
    assert open_ones == {}


def test_a_directory_of_an_earlier_version_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "artifacts").mkdir(parents=True)
    (data / "toast.db").touch()
    for path in (data, data / "artifacts"):
        path.chmod(0o755)
    (data / "toast.db").chmod(0o644)
    with Server(data, engine_command=fake_engine(tmp_path / "engine")):
        modes = [
            stat.S_IMODE(p.stat().st_mode) for p in (data, data / "artifacts", data / "toast.db")
        ]
    assert modes == [0o700, 0o700, 0o600]


def test_the_audit_log_says_who(shared: dict[str, Server]) -> None:
    ann, root = shared["ann"], shared["root"]
    job = ann.submit("success // seen")["id"]
    ann.finished(job)
    ann.client.get(f"/v1/jobs/{job}/plan")
    root.client.delete(f"/v1/jobs/{job}")
    first = as_object(root.client.get(f"/v1/audit?job={job}&limit=2"))
    rest = as_object(root.client.get(first["next"]))
    records = [*first["records"], *rest["records"]]
    said = [(record["action"], record["key"], record["owner"]) for record in records]
    assert said == [
        ("job.deleted", "root", "ops"),
        ("result.read", "ann", "one"),
        ("job.submitted", "ann", "one"),
    ]
    assert {record["address"] for record in records} == {"127.0.0.1"}
    assert records[0]["of"] == "one"
    check_problem(ann.client.get("/v1/audit"), 403, "forbidden")
    lines = (ann.data / "audit.jsonl").read_text().splitlines()
    assert all(json.loads(line)["at"].endswith("Z") for line in lines)
    uploads = as_object(root.client.get("/v1/audit?key=bob"))["records"]
    assert {record["key"] for record in uploads} == {"bob"}


def test_the_audit_log_outlives_a_torn_line_and_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    trail = AuditTrail(path)
    assert trail.page(limit=5).records == []
    trail.record("a", key="x")
    with path.open("a") as file:
        file.write('{"action": "to')
    path.rename(tmp_path / "old")
    trail.record("b", key="")
    assert [record["action"] for record in trail.page(limit=5).records] == ["b"]
    (tmp_path / "old").rename(path)
    assert [record["action"] for record in trail.page(limit=5).records] == ["a"]
    seen, cursor = [], None
    for number in range(100):
        trail.record("n", number=number, text="x" * 1500)
    while True:
        page = trail.page(limit=7, before=cursor, action="n")
        seen += [record["number"] for record in page.records]
        cursor = page.next
        if cursor is None:
            break
    # The first of them was written onto the line that was torn.
    assert seen == list(range(99, 0, -1))


def test_a_full_disk_stops_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    AuditTrail(tmp_path / "absent" / "audit.jsonl").record("job.deleted", key="ann", job="j")
    assert '"action":"job.deleted"' in caplog.text


def submit(store: SqlJobStore, owner: str, module: str = MODULE) -> str:
    store.add_module(module, 10, owner)
    new = NewJob(module=module, request={}, owned_by=owner, sees=owner)
    return store.create(new, max_queued=1000)[0].id


def claim(store: SqlJobStore) -> Claim:
    found = store.claim("server", lease=60)
    assert found is not None
    return found


def test_the_owner_with_the_fewest_running_comes_next(store: SqlJobStore) -> None:
    ann = [submit(store, "ann") for _ in range(4)]
    bob = [submit(store, "bob") for _ in range(2)]
    cid = submit(store, "cid")
    order = [claim(store) for _ in range(5)]
    assert [taken.job.id for taken in order] == [ann[0], bob[0], cid, ann[1], bob[1]]
    store.release(order[1])
    assert claim(store).job.id == bob[0]
    store.fail(order[2], {"code": "x"})
    rest = {claim(store).job.id for _ in range(2)}
    assert rest == set(ann[2:])
    assert store.claim("server", lease=60) is None


def with_quota(store: SqlJobStore, **limits: int) -> SqlJobStore:
    return SqlJobStore(store._database, quota=Quota(**limits))


def test_an_owner_runs_as_many_as_it_may(store: SqlJobStore) -> None:
    limited = with_quota(store, running=2)
    ann = [submit(limited, "ann") for _ in range(5)]
    taken: list[str] = []
    lock = threading.Lock()

    def take() -> None:
        found = limited.claim("server", lease=60)
        with lock:
            taken.extend([found.job.id] if found else [])

    threads = [threading.Thread(target=take) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(ann[:2])
    bob = submit(limited, "bob")
    assert claim(limited).job.id == bob


def test_quotas_count_what_they_say(store: SqlJobStore) -> None:
    queued = with_quota(store, queued=1)
    first = submit(queued, "ann")
    with pytest.raises(problems.QuotaExceeded) as raised:
        submit(queued, "ann")
    assert raised.value.headers["Toast-Quota"] == "queued"
    submit(queued, "bob")
    queued.cancel(first)
    submit(queued, "ann")

    stored = with_quota(store, stored=120)
    taken = claim(stored)
    result = JobResult(
        plan_sha256="b" * 64, module_sha256="c" * 64, suffix=".mlir", summary={}, stored_bytes=100
    )
    stored.succeed(taken, result)
    stored.check_room(taken.job.owned_by, 10)
    with pytest.raises(problems.QuotaExceeded, match="110 bytes are stored"):
        stored.check_room(taken.job.owned_by, 11)
    stored.delete(taken.job.id)
    stored.check_room(taken.job.owned_by, 11)


def test_a_minute_takes_so_many_submissions(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = with_quota(store, rate=2)
    moment = 60_000_000.0 + 45
    monkeypatch.setattr(limited, "_now", lambda _connection: moment)
    for _ in range(2):
        limited.delete(submit(limited, "ann"))  # deleted jobs were submitted all the same
    with pytest.raises(problems.QuotaExceeded) as raised:
        submit(limited, "ann")
    assert raised.value.headers == {"Retry-After": "15", "Toast-Quota": "rate"}
    submit(limited, "bob")
    moment += 15
    submit(limited, "ann")


def test_a_stall_counts_from_the_second_on(store: SqlJobStore) -> None:
    submit(store, "ann")
    first = store.stall(claim(store), max_lost=2)
    assert (first.state, first.stalls, first.lost) == (State.QUEUED, 1, 0)
    second = store.stall(claim(store), max_lost=2)
    assert (second.state, second.stalls, second.lost) == (State.QUEUED, 2, 1)
    third = store.stall(claim(store), max_lost=2)
    assert third.state is State.FAILED
    assert third.error is not None
    assert third.error["code"] == "worker_lost"


def test_a_job_of_before_belongs_to_admins(store: SqlJobStore) -> None:
    old = submit(store, "")
    assert [job.id for job in store.page(limit=9, before=None, state=None)] == [old]
    assert store.page(limit=9, before=None, state=None, owner="ann") == []


def test_the_start_says_that_a_keys_file_has_none(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    command = [sys.executable, "-m", "toast.service", "--port", "0", "--keys", str(file),
               "--data", str(tmp_path / "data")]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "toast keys add" in done.stderr
