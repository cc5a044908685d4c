"""A job that ends its server each time takes nobody else's job with it, and is never lost."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.service.harness import Server, as_object, check_problem, fake_engine
from tests.service.ledger_rows import LEASE, queued
from toast.cli import app
from toast.service.access.keys import hashed_line
from toast.service.ledger.records import Hold
from toast.service.ledger.states import State
from toast.service.ledger.store import JobStore


def claim(store: JobStore, server: str) -> str | None:
    found = store.claim(server, lease=LEASE)
    return None if found is None else found.job.id


def end_servers(store: JobStore, times: int) -> None:
    for _ in range(times):
        assert store.claim("dying", lease=LEASE) is not None
        store.recover("dying")


def test_a_job_is_suspected_from_the_third_server_on(store: JobStore) -> None:
    job = queued(store)
    end_servers(store, 2)
    assert not store.get(job.id).is_suspected
    end_servers(store, 1)
    suspect = store.get(job.id)
    assert suspect.is_suspected
    assert (suspect.state, suspect.server_deaths, suspect.interruptions) == (State.QUEUED, 3, 3)
    assert store.held() == {Hold.NEWER_WORKER: 0, Hold.SUSPECTED: 1}
    assert [j.id for j in store.page(limit=9, before=None, state=None, suspected=True)] == [job.id]


def test_faults_that_leave_the_server_alive_suspect_nobody(store: JobStore) -> None:
    job = queued(store)
    for _ in range(5):
        found = store.claim("me", lease=LEASE)
        assert found is not None
        store.interrupt(found)
    assert not store.get(job.id).is_suspected


def test_a_suspect_runs_last_and_alone(store: JobStore) -> None:
    suspect = queued(store)
    end_servers(store, 3)
    others = [queued(store).id for _ in range(2)]
    assert [claim(store, "one") for _ in range(3)] == [*others, None]  # one runs something
    assert claim(store, "two") == suspect.id
    more = queued(store).id
    assert claim(store, "two") is None  # two runs the suspect
    assert claim(store, "one") == more


def test_a_released_suspect_is_a_job_as_any_other(store: JobStore) -> None:
    suspect = queued(store)
    end_servers(store, 3)
    other = queued(store)
    assert store.acquit(suspect.id).server_deaths == 0
    assert [claim(store, "one") for _ in range(2)] == [suspect.id, other.id]


def make(tmp_path: Path, **settings: Any) -> Server:
    engine = fake_engine(tmp_path / "engine")
    return Server(tmp_path / "data", engine_command=engine, drain=1.0, **settings)


def wait_for_death(server: Server) -> None:
    assert server.process is not None
    server.process.wait(timeout=30)
    server.kill()


def test_a_job_that_kills_its_server_lets_others_finish(tmp_path: Path) -> None:
    with make(tmp_path, workers=2, backoff=0.5, longest_suspected=3600.0) as server:
        poison = server.submit("poison")["id"]
        wait_for_death(server)
        for _ in range(2):
            server.start()
            wait_for_death(server)
        server.start()
        suspect = server.job(poison)
        assert (suspect["state"], suspect["waits_for"]) == ("queued", "suspected")
        assert (suspect["server_deaths"], suspect["failures"]) == (3, 0)
        listed = as_object(server.client.get("/v1/jobs", params={"suspected": True}))["jobs"]
        assert [job["id"] for job in listed] == [poison]
        assert 'toast_jobs_held{reason="suspected"} 1.0' in server.client.get("/metrics").text
        server.client.post(f"/v1/jobs/{poison}/cancel")
        assert server.job(poison)["state"] == "cancelled"
        assert server.finished(server.submit("success")["id"])["state"] == "succeeded"
        server.terminate()
        assert server.wait() == 0


def test_a_suspect_takes_no_other_job_with_it(tmp_path: Path) -> None:
    with make(tmp_path, workers=2, backoff=9.0, longest_suspected=3600.0) as server:
        poison = server.submit("slow 60")["id"]
        server.until(poison, "running")
        with sqlite3.connect(server.data / "toast.db", timeout=30) as database:
            database.execute("UPDATE jobs SET server_deaths = 2")
        server.kill()
        server.start()
        assert server.job(poison)["waits_for"] == "suspected"
        others = [server.submit(f"slow 1 {number}")["id"] for number in range(5)]
        with sqlite3.connect(server.data / "toast.db", timeout=30) as database:
            database.execute("UPDATE jobs SET not_before = NULL")
        for other in others:
            assert server.finished(other)["attempt"] == 1
            assert server.job(other)["state"] == "succeeded"
        server.until(poison, "running")
        late = server.submit("success")["id"]
        assert server.job(late)["state"] == "queued"  # the other worker stays idle
        server.client.post(f"/v1/jobs/{poison}/cancel")
        assert server.finished(late)["state"] == "succeeded"


def toast(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["admin", *words])
    return done.exit_code, done.output


def test_the_operator_lists_releases_and_deletes(tmp_path: Path) -> None:
    with make(tmp_path, workers=1) as server:
        at = ("--url", server.url)
        assert toast("suspects", *at) == (0, "No job is suspected of ending its servers.\n")
        blocker = server.submit("slow 60")["id"]
        server.until(blocker, "running")
        one, two = (server.submit(f"success {number}")["id"] for number in range(2))
        with sqlite3.connect(server.data / "toast.db", timeout=30) as database:
            database.execute("UPDATE jobs SET server_deaths = 3 WHERE state = 'queued'")
        code, said = toast("suspects", *at)
        assert code == 0
        assert [line.split()[:3] for line in said.splitlines()[1:]] == [
            [two, "queued", "3"], [one, "queued", "3"],
        ]  # fmt: skip
        assert toast("release", one, *at) == (
            0, f"The job {one} is queued and runs as any other.\n",
        )  # fmt: skip
        assert toast("delete", two, *at) == (0, f"The job {two} is gone.\n")
        code, said = toast("release", two, *at)
        assert (code, "There is no job" in said) == (2, True)
        code, said = toast("suspects", *at, "--json")
        assert (code, json.loads(said)) == (0, [])
        server.client.post(f"/v1/jobs/{blocker}/cancel")
        assert server.finished(one)["state"] == "succeeded"


def test_admins_release_a_suspect(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    lines = [
        f"{hashed_line('a' * 20)} name=root owner=ops scopes=admin",
        f"{hashed_line('b' * 20)} name=dev owner=dev scopes=submit,read",
    ]
    keys.write_text("\n".join(lines) + "\n")
    keys.chmod(0o600)
    with make(tmp_path, keys=str(keys)) as server:
        server.client.headers["Authorization"] = "Bearer " + "b" * 20
        job = server.submit("slow 60")["id"]
        check_problem(server.client.post(f"/v1/jobs/{job}/release"), 403, "forbidden", "admin")
        server.client.headers["Authorization"] = "Bearer " + "a" * 20
        assert as_object(server.client.post(f"/v1/jobs/{job}/release"))["server_deaths"] == 0
        records = as_object(server.client.get("/v1/audit", params={"job": job}))["records"]
        assert records[0]["action"] == "job.released"
        server.client.post(f"/v1/jobs/{job}/cancel")
        server.finished(job)
        check_problem(server.client.post(f"/v1/jobs/{job}/release"), 409, "job_finished")


def test_metrics_of_held_jobs_have_fixed_labels(server: Server) -> None:
    text = server.client.get("/metrics").text
    assert set(re.findall(r'toast_jobs_held\{reason="(\w+)"\}', text)) == set(Hold)
