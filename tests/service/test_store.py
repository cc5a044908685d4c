"""What every job store keeps to; see `JobStore`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.service.ledger_rows import LEASE, MODULE, claimed, kinds, queued
from toast.service import problems
from toast.service.ledger.backoff import Backoff
from toast.service.ledger.database import open_database, sqlite_url
from toast.service.ledger.records import Claim, JobResult, NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.ledger.states import State
from toast.service.ledger.store import JobStore, StaleClaim

RESULT = JobResult(
    plan_sha256="b" * 64, module_sha256="c" * 64, suffix=".mlir", summary={"fits": True}
)
ERROR = {"code": "invalid_module", "status": 422}


def test_a_module_is_new_once(store: JobStore) -> None:
    assert store.module_size(MODULE) is None
    assert store.add_module(MODULE, 10)
    assert not store.add_module(MODULE, 10)
    assert store.module_size(MODULE) == 10


def test_a_job_starts_queued_with_one_event(store: JobStore) -> None:
    job = queued(store)
    assert store.get(job.id) == job
    assert (job.state, job.attempt, job.version) == (State.QUEUED, 0, 1)
    assert job.request == {"mesh": "data=2"}
    assert kinds(store, job) == ["queued"]


def test_a_job_needs_its_module(store: JobStore) -> None:
    with pytest.raises(problems.UnknownModule):
        store.create(NewJob(module=MODULE, request={}), max_queued=1)


def test_the_queue_has_an_end(store: JobStore) -> None:
    queued(store)
    with pytest.raises(problems.QueueFull):
        store.create(NewJob(module=MODULE, request={}), max_queued=1)
    assert store.claim("me", lease=LEASE) is not None
    store.create(NewJob(module=MODULE, request={}), max_queued=1)


def test_an_idempotency_key_makes_one_job(store: JobStore) -> None:
    first = queued(store, key="k")
    assert queued(store, key="k") == first
    assert queued(store, key="other").id != first.id
    with pytest.raises(problems.IdempotencyMismatch):
        queued(store, key="k", fingerprint="g")
    assert len(store.page(limit=10, before=None, state=None)) == 2


def test_an_idempotency_key_belongs_to_its_caller(store: JobStore) -> None:
    store.add_module(MODULE, 1)
    ids = set()
    for scope in ("one", "two"):
        new = NewJob(module=MODULE, request={}, scope=scope, key="k")
        ids.add(store.create(new, max_queued=9)[0].id)
    assert len(ids) == 2


def test_a_key_answers_even_when_the_queue_is_full(store: JobStore) -> None:
    store.add_module(MODULE, 1)
    new = NewJob(module=MODULE, request={}, key="k")
    first, was_new = store.create(new, max_queued=1)
    again, still_new = store.create(new, max_queued=1)
    assert (first, was_new, still_new) == (again, True, False)


def test_a_key_ends_with_its_job(store: JobStore) -> None:
    first = queued(store, key="k")
    store.delete(first.id)
    assert queued(store, key="k", fingerprint="g").id != first.id


def test_claims_go_oldest_first(store: JobStore) -> None:
    jobs = [queued(store) for _ in range(3)]
    claims = [store.claim("me", lease=LEASE) for _ in range(4)]
    assert [claim and claim.job.id for claim in claims] == [*(job.id for job in jobs), None]
    first = claims[0]
    assert first is not None
    assert (first.attempt, first.job.state) == (1, State.RUNNING)
    assert first.job.started is not None


def test_success_ends_the_job(store: JobStore) -> None:
    claim = claimed(store)
    assert store.progress(claim, {"fraction": 0.5}, lease=LEASE) is State.RUNNING
    job = store.succeed(claim, RESULT)
    assert (job.state, job.plan_sha256, job.result_suffix) == (
        State.SUCCEEDED, RESULT.plan_sha256, ".mlir",
    )  # fmt: skip
    assert (job.summary, job.progress) == ({"fits": True}, {"fraction": 0.5})
    assert job.finished is not None
    assert kinds(store, job) == ["queued", "running", "progress", "succeeded"]
    assert store.events(job.id, after=3)[0].data["summary"] == {"fits": True}


def test_failure_ends_the_job_with_its_problem(store: JobStore) -> None:
    job = store.fail(claimed(store), ERROR)
    assert (job.state, job.error, job.failures, job.lost) == (State.FAILED, ERROR, 1, 0)
    assert store.events(job.id, after=2)[0].data["error"] == ERROR


def test_a_failure_may_be_tried_again(store: JobStore) -> None:
    first = claimed(store)
    assert store.fail(first, ERROR, retries=1).state is State.QUEUED
    second = store.claim("me", lease=LEASE)
    assert second is not None
    assert second.attempt == 2
    job = store.fail(second, ERROR, retries=1)
    assert (job.state, job.failures) == (State.FAILED, 2)


def test_lost_workers_are_counted_apart(store: JobStore) -> None:
    claim = claimed(store)
    job = store.lose(claim, max_lost=2)
    assert (job.state, job.lost, job.failures) == (State.QUEUED, 1, 0)
    again = store.claim("me", lease=LEASE)
    assert again is not None
    job = store.lose(again, max_lost=2)
    assert (job.state, job.lost, job.failures) == (State.FAILED, 2, 0)
    assert job.error is not None
    assert job.error["code"] == "worker_lost"


def test_faults_of_the_operator_never_fail_a_job(store: JobStore) -> None:
    claim: Claim | None = claimed(store)
    for count in range(1, 9):
        assert claim is not None
        job = store.interrupt(claim) if count % 2 else store.recover("me")[0]
        assert (job.state, job.interruptions) == (State.QUEUED, count)
        assert (job.lost, job.failures, job.error) == (0, 0, None)
        claim = store.claim("me", lease=LEASE)
    assert claim is not None
    assert store.succeed(claim, RESULT).state is State.SUCCEEDED


class Wall:
    """A clock that stands still until somebody sets it."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[tuple[SqlJobStore, Wall]]:
    """A store that waits 1 s after a fault, 8 s at most, by a clock of the test."""
    wall = Wall()
    database = open_database(sqlite_url(tmp_path / "timed.db"))
    store = SqlJobStore(database, backoff=Backoff(first=1.0, longest=8.0), wall=wall)
    yield store, wall
    store.close()


def test_waits_after_faults_double_up_to_a_limit(timed: tuple[SqlJobStore, Wall]) -> None:
    store, wall = timed
    claim: Claim | None = claimed(store)
    for number, wait in enumerate((1.0, 2.0, 4.0, 8.0, 8.0)):
        assert claim is not None
        job = store.interrupt(claim) if number else store.lose(claim, max_lost=3)
        assert job.not_before == wall.now + wait
        wall.now += wait - 0.01
        assert store.claim("me", lease=LEASE) is None
        wall.now += 0.02
        claim = store.claim("me", lease=LEASE)
    assert claim is not None
    assert claim.job.not_before is None


def test_a_job_that_waits_does_not_hold_up_others(timed: tuple[SqlJobStore, Wall]) -> None:
    store, _ = timed
    store.interrupt(claimed(store))
    other = queued(store)
    claim = store.claim("me", lease=LEASE)
    assert claim is not None
    assert claim.job.id == other.id


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_jumps_does_not_strand_a_job(
    timed: tuple[SqlJobStore, Wall], jump: float
) -> None:
    store, wall = timed
    store.interrupt(claimed(store))
    wall.now += jump
    claim = store.claim("me", lease=LEASE)
    assert claim is not None
    wall.now += jump
    before = store.clock()
    store.renew(claim, lease=LEASE)  # as the server does, before it looks for late ones
    assert store.recover(None, at=before) == []
    assert store.succeed(claim, RESULT).state is State.SUCCEEDED


def test_a_job_that_waits_can_be_cancelled_and_deleted(timed: tuple[SqlJobStore, Wall]) -> None:
    store, _ = timed
    job = store.interrupt(claimed(store))
    cancelled = store.cancel(job.id)
    assert (cancelled.state, cancelled.not_before) == (State.CANCELLED, None)
    store.delete(job.id)


def test_a_released_job_is_queued_unharmed(store: JobStore) -> None:
    claim = claimed(store)
    store.progress(claim, {"fraction": 0.9}, lease=LEASE)
    job = store.release(claim)
    assert (job.state, job.lost, job.failures, job.progress) == (State.QUEUED, 0, 0, None)


def test_cancelling_a_queued_job_ends_it(store: JobStore) -> None:
    job = store.cancel(queued(store).id)
    assert job.state is State.CANCELLED
    assert store.claim("me", lease=LEASE) is None
    with pytest.raises(problems.JobFinished):
        store.cancel(job.id)


def test_a_cancelled_job_keeps_its_plan(store: JobStore) -> None:
    claim = claimed(store)
    assert store.cancel(claim.job.id).state is State.CANCELLING
    assert store.cancel(claim.job.id).state is State.CANCELLING
    assert store.renew(claim, lease=LEASE) is State.CANCELLING
    assert store.progress(claim, {}, lease=LEASE) is State.CANCELLING
    job = store.succeed(claim, RESULT)
    assert (job.state, job.plan_sha256) == (State.CANCELLED, RESULT.plan_sha256)
    assert kinds(store, job)[-2:] == ["progress", "cancelled"]


@pytest.mark.parametrize("end", ["fail", "lose", "interrupt", "release"])
def test_a_cancelling_job_ends_cancelled_whatever_happens(store: JobStore, end: str) -> None:
    claim = claimed(store)
    store.cancel(claim.job.id)
    if end == "fail":
        job = store.fail(claim, ERROR, retries=5)
    elif end == "lose":
        job = store.lose(claim, max_lost=5)
    elif end == "interrupt":
        job = store.interrupt(claim)
    else:
        job = store.release(claim)
    assert (job.state, job.error) == (State.CANCELLED, None)


def writes(store: JobStore, claim: Claim) -> None:
    """Each write that a worker can make, all of which must be refused."""
    for write in (
        lambda: store.renew(claim, lease=LEASE),
        lambda: store.progress(claim, {"fraction": 1.0}, lease=LEASE),
        lambda: store.succeed(claim, RESULT),
        lambda: store.fail(claim, ERROR),
        lambda: store.lose(claim, max_lost=1),
        lambda: store.interrupt(claim),
        lambda: store.release(claim),
    ):
        with pytest.raises(StaleClaim):
            write()


def test_an_overtaken_worker_writes_nothing(store: JobStore) -> None:
    old = claimed(store)
    store.lose(old, max_lost=9)
    new = store.claim("me", lease=LEASE)
    assert new is not None
    before = (store.get(old.job.id), store.events(old.job.id, after=0))
    writes(store, old)
    assert (store.get(old.job.id), store.events(old.job.id, after=0)) == before
    assert store.succeed(new, RESULT).state is State.SUCCEEDED


@pytest.mark.parametrize("end", ["succeed", "queued", "delete"])
def test_a_worker_whose_job_is_over_writes_nothing(store: JobStore, end: str) -> None:
    claim = claimed(store)
    if end == "queued":
        store.release(claim)
    else:
        store.succeed(claim, RESULT)
    if end == "delete":
        store.delete(claim.job.id)
    writes(store, claim)


def test_recovery_takes_back_the_jobs_of_one_owner(store: JobStore) -> None:
    mine, other = claimed(store, "me"), claimed(store, "other")
    assert [job.id for job in store.recover("me")] == [mine.job.id]
    assert store.get(mine.job.id).state is State.QUEUED
    assert store.get(other.job.id).state is State.RUNNING
    assert store.recover("me") == []


def test_recovery_takes_back_what_was_not_renewed(store: JobStore) -> None:
    late, renewed = claimed(store, lease=0.0), claimed(store, lease=0.0)
    store.renew(renewed, lease=LEASE)
    time.sleep(0.01)
    assert store.recover(None, at=store.clock() - 3600) == []
    assert [job.id for job in store.recover(None)] == [late.job.id]
    with pytest.raises(StaleClaim):
        store.succeed(late, RESULT)


def test_pages_go_from_the_newest(store: JobStore) -> None:
    jobs = [queued(store) for _ in range(5)]
    store.cancel(jobs[2].id)
    page = store.page(limit=2, before=None, state=None)
    assert [job.id for job in page] == [jobs[4].id, jobs[3].id]
    rest = store.page(limit=9, before=page[-1].seq, state=None)
    assert [job.id for job in rest] == [jobs[2].id, jobs[1].id, jobs[0].id]
    only = store.page(limit=9, before=None, state=State.CANCELLED)
    assert [job.id for job in only] == [jobs[2].id]
    assert store.counts()[State.QUEUED] == 4
    assert set(store.counts()) == set(State)


def test_deletion_forgets_the_job_and_its_files(store: JobStore) -> None:
    claim = claimed(store)
    with pytest.raises(problems.JobNotFinished):
        store.delete(claim.job.id)
    store.succeed(claim, RESULT)
    assert store.refers_to(RESULT.plan_sha256)
    assert store.refers_to(RESULT.module_sha256)
    store.delete(claim.job.id)
    assert not store.refers_to(RESULT.plan_sha256)
    assert store.refers_to(MODULE)
    assert store.events(claim.job.id, after=0) == []
    for ask in (store.get, store.delete, store.cancel):
        with pytest.raises(problems.UnknownJob):
            ask(claim.job.id)


def test_a_number_is_never_given_twice(store: JobStore) -> None:
    """A page's cursor must not meet another job after a deletion."""
    first = queued(store)
    second = queued(store)
    store.delete(second.id)
    assert queued(store).seq > second.seq > first.seq


def test_progress_that_is_not_json_is_refused(store: JobStore) -> None:
    claim = claimed(store)
    with pytest.raises(ValueError, match="JSON"):
        store.progress(claim, {"best_cost": float("inf")}, lease=LEASE)
    assert store.get(claim.job.id).version == 2


def test_many_threads_with_one_key_make_one_job(store: JobStore) -> None:
    start = threading.Barrier(6)

    def ask(_: int) -> str:
        start.wait()
        return queued(store, key="k").id

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(ask, range(6)))) == 1


def test_many_threads_never_share_a_job(store: JobStore) -> None:
    jobs = [queued(store).id for _ in range(60)]
    start = threading.Barrier(6)

    def work(name: int) -> list[str]:
        start.wait()
        done = []
        while (claim := store.claim(f"worker-{name}", lease=LEASE)) is not None:
            store.progress(claim, {"by": name}, lease=LEASE)
            store.succeed(claim, RESULT)
            done.append(claim.job.id)
        return done

    with ThreadPoolExecutor(6) as pool:
        done = [job for part in pool.map(work, range(6)) for job in part]
    assert sorted(done) == sorted(jobs)
    assert store.counts()[State.SUCCEEDED] == 60
