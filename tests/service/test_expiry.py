"""What is past its time goes, with its files; what anybody may still need stays."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.service.harness import Server, check_problem, fake_engine
from toast.service import problems
from toast.service.context import Context
from toast.service.ledger.database import open_database, sqlite_url
from toast.service.ledger.records import Job, JobResult, NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.ledger.states import State
from toast.service.server import make_context
from toast.service.settings import ServiceSettings
from toast.service.work.expiry import Sweeper

DAY = 86_400.0


class Time:
    """The wall and the time that passes; apart, the wall was set."""

    def __init__(self) -> None:
        self.wall = 1e9
        self.running = 5.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.running += seconds


class Place:
    """A context whose time is the test's."""

    def __init__(self, data: Path) -> None:
        self.time = Time()
        made = make_context(ServiceSettings(data=data, keep_jobs=DAY, keep_modules=3 * DAY))
        made.store.close()
        database = open_database(sqlite_url(data / "toast.db"))
        store = SqlJobStore(database, wall=lambda: self.time.wall)
        self.context: Context = dataclasses.replace(made, store=store)
        self.sweeper = Sweeper(self.context, running=lambda: self.time.running)

    def file(self, data: bytes) -> str:
        artifacts = self.context.artifacts
        with artifacts.incoming() as incoming:
            incoming.write(data)
            artifact = incoming.finish()
            with artifacts.guard:
                artifacts.keep(incoming, artifact)
        return artifact.sha256

    def upload(self, data: bytes) -> str:
        sha256 = self.file(data)
        self.context.store.add_module(sha256, len(data))
        return sha256

    def job(self, module: str) -> Job:
        return self.context.store.create(NewJob(module=module, request={}), max_queued=9)[0]

    def finish(self, plan: bytes) -> Job:
        claim = self.context.store.claim("me", lease=9.0)
        assert claim is not None
        plan_sha256, sharded = self.file(plan), self.file(b"sharded")
        result = JobResult(
            plan_sha256=plan_sha256, module_sha256=sharded, suffix=".mlir", summary={}
        )
        return self.context.store.succeed(claim, result)

    def jobs(self) -> set[str]:
        page = self.context.store.page(limit=99, before=None, state=None)
        return {job.id for job in page}

    def exists(self, sha256: str | None) -> bool:
        assert sha256 is not None
        return self.context.artifacts.path(sha256).exists()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.context.store.close()


def test_jobs_go_when_their_time_is_over(place: Place) -> None:
    module = place.upload(b"module")
    place.job(module)
    old = place.finish(b"plan 1")
    place.time.pass_by(DAY / 2)
    place.job(module)
    new = place.finish(b"plan 2")
    waiting = place.job(module)
    place.time.pass_by(DAY * 0.7)
    place.sweeper.sweep()
    assert place.jobs() == {new.id, waiting.id}
    assert not place.exists(old.plan_sha256)
    assert place.exists(new.plan_sha256)
    assert place.exists(old.result_sha256)  # the other job has the same sharded module
    place.time.pass_by(100 * DAY)
    place.sweeper.sweep()
    assert place.jobs() == {waiting.id}
    assert not place.exists(new.result_sha256)
    assert place.exists(module)


def test_modules_go_when_no_job_names_them_and_nobody_came_for_them(place: Place) -> None:
    used, again, idle = (place.upload(data) for data in (b"used", b"again", b"idle"))
    job = place.job(used)
    place.time.pass_by(2 * DAY)
    place.upload(b"again")
    place.time.pass_by(2 * DAY)
    place.sweeper.sweep()
    assert [place.exists(sha256) for sha256 in (used, again, idle)] == [True, True, False]
    with pytest.raises(problems.UnknownModule):
        place.job(idle)
    place.context.store.cancel(job.id)
    place.context.store.delete(job.id)
    place.sweeper.sweep()
    assert [place.exists(sha256) for sha256 in (used, again)] == [False, True]


@pytest.mark.parametrize("jump", [300 * DAY, -300 * DAY])
def test_a_clock_that_jumps_takes_nothing_for_a_day(place: Place, jump: float) -> None:
    place.job(place.upload(b"module"))
    job = place.finish(b"plan")
    place.sweeper.sweep()
    place.time.wall += jump
    for _ in range(3):
        place.sweeper.sweep()
        place.time.pass_by(600.0)
    assert place.jobs() == {job.id}
    place.time.wall -= jump  # somebody set it right again: a jump too
    place.sweeper.sweep()
    place.time.pass_by(0.9 * DAY)
    place.sweeper.sweep()
    assert place.jobs() == {job.id}
    place.time.pass_by(0.2 * DAY)
    place.sweeper.sweep()
    assert place.jobs() == set()


def test_a_submit_and_an_expiry_never_leave_a_job_without_its_module(place: Place) -> None:
    """A hundred races: the job either has its module with its bytes, or was refused."""
    accepted = []

    def submit(module: str, start: threading.Barrier) -> None:
        start.wait()
        try:
            accepted.append(place.job(module))
        except problems.UnknownModule:
            return

    def sweep(start: threading.Barrier) -> None:
        start.wait()
        place.sweeper.sweep()

    with ThreadPoolExecutor(2) as pool:
        for number in range(100):
            module = place.upload(b"%d" % number)
            place.time.pass_by(4 * DAY)
            start = threading.Barrier(2)
            for each in (pool.submit(submit, module, start), pool.submit(sweep, start)):
                each.result()
            assert place.exists(module) == (accepted[-1:] != [] and accepted[-1].module == module)
            for job in accepted[-1:]:
                if job.module == module:
                    place.context.store.cancel(job.id)


def test_a_module_is_deleted_by_hand_once_no_job_names_it(server: Server) -> None:
    module = server.upload("success expiry-1")
    job = server.finished(server.submit("success expiry-1")["id"])
    shown = server.client.get(f"/v1/modules/{module}").json()
    assert (shown["id"], shown["size"], shown["jobs"]) == (module, 16, 1)
    assert shown["created"] <= shown["last_used"] <= job["finished"]
    path = f"/v1/modules/{module}"
    check_problem(server.client.delete(path), 409, "module_in_use", "1 job.")
    assert server.client.delete(f"/v1/jobs/{job['id']}").status_code == 204
    assert server.client.delete(path).status_code == 204
    for answer in (server.client.get(path), server.client.delete(path)):
        check_problem(answer, 404, "module_not_found")
    assert not (server.data / "artifacts" / module[:2] / module).exists()
    body = {"module": module, "mesh": "data=2"}
    check_problem(server.client.post("/v1/jobs", json=body), 422, "unknown_module")
    assert server.upload("success expiry-1") == module


def test_a_server_expires_what_it_keeps_too_long(tmp_path: Path) -> None:
    engine = fake_engine(tmp_path / "engine")
    data = tmp_path / "data"
    with Server(data, engine_command=engine, keep_jobs=2, keep_modules=2) as server:
        running = server.submit("slow 8")["id"]
        gone = server.submit("success")
        server.client.post(f"/v1/jobs/{gone['id']}/cancel")
        end = time.monotonic() + 7
        while server.client.get(f"/v1/modules/{gone['module']}").status_code == 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        check_problem(server.client.get(f"/v1/jobs/{gone['id']}"), 404, "unknown_job")
        assert server.job(running)["state"] == "running"
        assert 'toast_expired_total{what="job"} 1.0' in server.client.get("/metrics").text


def test_a_store_that_keeps_for_ever_deletes_nothing(tmp_path: Path) -> None:
    context = make_context(ServiceSettings(data=tmp_path, keep_jobs=None, keep_modules=None))
    module = "a" * 64
    context.store.add_module(module, 1)
    job, _ = context.store.create(NewJob(module=module, request={}), max_queued=1)
    context.store.cancel(job.id)
    sweeper = Sweeper(context)
    sweeper.start()
    sweeper.sweep()
    sweeper.stop()
    assert context.store.get(job.id).state is State.CANCELLED
    assert context.store.module(module).jobs == 1
    context.store.close()
