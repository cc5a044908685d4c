"""The job store on SQL: SQLite and PostgreSQL from one set of statements."""

# ruff: noqa: D102 (the methods are documented in `JobStore`)

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sa

from toast.service import problems
from toast.service.ledger import expiry, suspicion
from toast.service.ledger.backoff import Backoff
from toast.service.ledger.compatibility import check_may_write
from toast.service.ledger.database import Database
from toast.service.ledger.faults import as_service_errors
from toast.service.ledger.owners import (
    Quota,
    check_rate,
    check_room,
    check_waiting,
    next_job,
    owns_module,
    record_use,
)
from toast.service.ledger.records import Claim, Event, Hold, Job, JobResult, Module, NewJob
from toast.service.ledger.reuse import candidates, insert_with_result
from toast.service.ledger.rows import (
    change,
    dumps,
    event_of,
    insert_job,
    is_claimed,
    is_named,
    job_of,
    state_event,
    unknown_job,
)
from toast.service.ledger.states import CLAIMED, State
from toast.service.ledger.store import JobStore, StaleClaim
from toast.service.ledger.tables import events, idempotency, jobs, ledger, modules

Answer = TypeVar("Answer")

_CLAIMS = 7_408_113
"""The number of our lock among the locks that programs take on a PostgreSQL database."""

_UNCLAIM: dict[str, Any] = {"owner": None, "lease_until": None}


class SqlJobStore(JobStore):
    """See `JobStore` for what each method promises.

    `backoff` is how long a job waits after a fault, `quota` what an owner may use. `wall` replaces
    the clock: for SQLite, whose file one process owns, that of the process, for PostgreSQL its own.
    """

    def __init__(
        self,
        database: Database,
        *,
        quota: Quota | None = None,
        backoff: Backoff | None = None,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self._database = database
        self._quota = quota or Quota()
        self._backoff = backoff or Backoff()
        self._unreadable: set[int] = set()
        self._postgres = database.writer.dialect.name == "postgresql"
        self._wall = wall or (None if self._postgres else time.time)

    @contextlib.contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        with as_service_errors(), self._database.writer.begin() as connection:
            check_may_write(connection)
            yield connection

    @contextlib.contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        try:
            with as_service_errors(), self._database.reader.begin() as connection:
                yield connection
        except sa.exc.ProgrammingError:  # a bug of ours, or tables of another version
            with as_service_errors(), self._database.reader.begin() as connection:
                check_may_write(connection)
            raise

    def ping(self) -> None:
        # The one row that is always there, written as it is and taken back: SQLite finds out only
        # when it writes that its file was moved away or that its disk is full.
        with as_service_errors(), self._database.writer.connect() as connection:
            same = "UPDATE alembic_version SET version_num = version_num"
            connection.execute(sa.text(same))
            check_may_write(connection)

    def ledger_id(self) -> str:
        with self._read() as connection:
            return str(connection.execute(sa.select(ledger.c.id)).scalar_one())

    def close(self) -> None:
        self._database.close()

    def add_module(self, sha256: str, size: int, owner: str = "") -> bool:
        return self._again(lambda: self._add_module(sha256, size, owner))

    def _add_module(self, sha256: str, size: int, owner: str) -> bool:
        with self._write() as connection:
            now = self._now(connection)
            again = modules.update().where(modules.c.sha256 == sha256).values(used=now)
            if connection.execute(again).rowcount == 0:
                row = {"sha256": sha256, "size": size, "created": now, "used": now}
                connection.execute(modules.insert().values(row))
            return record_use(connection, owner, sha256, now)

    def check_room(self, owner: str, size: int) -> None:
        with self._read() as connection:
            check_room(connection, owner, self._quota, size)

    def module_size(self, sha256: str) -> int | None:
        with self._read() as connection:
            return self._size(connection, sha256)

    def module(self, sha256: str, owner: str | None = None) -> Module:
        with self._read() as connection:
            return expiry.module_of(connection, sha256, owner)

    def delete_module(self, sha256: str, owner: str | None = None) -> None:
        def delete() -> None:
            with self._write() as connection:
                expiry.delete_module(connection, sha256, owner)

        self._again(delete)

    def create(self, new: NewJob, *, max_queued: int) -> tuple[Job, bool]:
        return self._again(lambda: self._create(new, max_queued))

    def _create(self, new: NewJob, max_queued: int) -> tuple[Job, bool]:
        with self._write() as connection:
            if new.key is not None and (known := self._replayed(connection, new)) is not None:
                return known, False
            seen = new.sees is None or owns_module(connection, new.sees, new.module)
            if not seen or self._size(connection, new.module) is None:
                raise problems.UnknownModule(
                    f"No module {new.module} was uploaded.",
                    "Upload it with POST /v1/modules and use the id in the answer.",
                )
            now = self._now(connection)
            used = modules.update().where(modules.c.sha256 == new.module).values(used=now)
            connection.execute(used)
            record_use(connection, new.owned_by, new.module, now)
            check_rate(connection, new.owned_by, self._quota, now, postgres=self._postgres)
            job = None if new.source is None else insert_with_result(connection, new, now)
            if job is None:
                self._check_queue(connection, max_queued)
                check_waiting(connection, new.owned_by, self._quota)
                job = insert_job(connection, new, now)
            if new.key is not None:
                row = {"scope": new.scope, "key": new.key, "fingerprint": new.fingerprint}
                connection.execute(idempotency.insert().values(**row, job=job.seq))
            return job, True

    def reusable(self, new: NewJob) -> list[Job]:
        with self._read() as connection:
            return candidates(connection, new)

    def get(self, job_id: str) -> Job:
        with self._read() as connection:
            return _existing(connection, job_id)

    def page(
        self,
        *,
        limit: int,
        before: int | None,
        state: State | None,
        name: str | None = None,
        owner: str | None = None,
        suspected: bool = False,
    ) -> list[Job]:
        query = sa.select(jobs).order_by(jobs.c.seq.desc()).limit(limit)
        if before is not None:
            query = query.where(jobs.c.seq < before)
        if state is not None:
            query = query.where(jobs.c.state == state.value)
        if name is not None:
            query = query.where(is_named(name, postgres=self._postgres))
        if owner is not None:
            query = query.where(jobs.c.owned_by == owner)
        if suspected:
            query = query.where(suspicion.suspected(), jobs.c.finished.is_(None))
        with self._read() as connection:
            return [job_of(row) for row in connection.execute(query)]

    def events(self, job_id: str, *, after: int) -> list[Event]:
        query = (
            sa.select(events)
            .join(jobs, jobs.c.seq == events.c.job)
            .where(jobs.c.id == job_id, events.c.number > after)
            .order_by(events.c.number)
        )
        with self._read() as connection:
            return [event_of(row) for row in connection.execute(query)]

    def counts(self) -> dict[State, int]:
        query = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
        with self._read() as connection:
            found = {row[0]: row[1] for row in connection.execute(query)}
        return {state: found.get(state.value, 0) for state in State}

    def refers_to(self, sha256: str) -> bool:
        results = sa.or_(jobs.c.plan_sha256 == sha256, jobs.c.result_sha256 == sha256)
        with self._read() as connection:
            if self._size(connection, sha256) is not None:
                return True
            return connection.execute(sa.select(jobs.c.seq).where(results)).first() is not None

    def held(self) -> dict[Hold, int]:
        queued = jobs.c.state == State.QUEUED.value
        unreadable = jobs.c.seq.in_(list(self._unreadable))
        suspected = sa.and_(suspicion.suspected(), sa.not_(unreadable))
        conditions = {Hold.NEWER_WORKER: unreadable, Hold.SUSPECTED: suspected}
        with self._read() as connection:
            return {
                hold: connection.execute(
                    sa.select(sa.func.count()).select_from(jobs).where(queued, condition)
                ).scalar_one()
                for hold, condition in conditions.items()
            }

    def claim(
        self, owner: str, *, lease: float, reads: Callable[[Job], bool] = lambda _job: True
    ) -> Claim | None:
        with self._write() as connection:
            self._one_at_a_time(connection)
            now = self._now(connection)
            found = self._next(connection, owner, now, reads)
            if found is None:
                return None
            job = change(
                connection,
                jobs.c.seq == found.seq,
                state_event,
                now,
                state=State.RUNNING.value,
                attempt=jobs.c.attempt + 1,
                owner=owner,
                lease_until=now + lease,
                started=sa.func.coalesce(jobs.c.started, now),
                progress=None,
                not_before=None,
            )
            assert job is not None  # the row is locked
            return Claim(job=job, attempt=job.attempt)

    def _next(
        self, connection: sa.Connection, owner: str, now: float, reads: Callable[[Job], bool]
    ) -> Job | None:
        """The job to claim, its row locked."""
        queued = jobs.c.state == State.QUEUED.value
        may_run = sa.and_(queued, self._waited(now), suspicion.may_run_on(owner))
        while True:
            readable = jobs.c.seq.not_in(list(self._unreadable))
            query = next_job(sa.and_(may_run, readable), self._quota, suspicion.suspected())
            row = connection.execute(query).first()
            if row is None or reads(job := job_of(row)):
                return None if row is None else job
            self._unreadable.add(job.seq)

    def renew(self, claim: Claim, *, lease: float) -> State:
        with self._write() as connection:
            update = (
                jobs.update()
                .where(is_claimed(claim))
                .values(lease_until=self._now(connection) + lease)
                .returning(jobs.c.state)
            )
            state = connection.execute(update).scalar_one_or_none()
            if state is None:
                raise StaleClaim(claim.job.id)
            return State(state)

    def progress(self, claim: Claim, data: dict[str, Any], *, lease: float) -> State:
        with self._write() as connection:
            now = self._now(connection)
            values = {"progress": dumps(data), "lease_until": now + lease}
            job = change(connection, is_claimed(claim), lambda _: ("progress", data), now, **values)
            return _fenced(job, claim).state

    def succeed(self, claim: Claim, result: JobResult) -> Job:
        return self._end(
            claim,
            State.SUCCEEDED,
            plan_sha256=result.plan_sha256,
            result_sha256=result.module_sha256,
            result_suffix=result.suffix,
            stored_bytes=result.stored_bytes,
            summary=dumps(result.summary),
        )

    def fail(self, claim: Claim, error: dict[str, Any], *, retries: int = 0) -> Job:
        with self._write() as connection:
            job = _claimed(connection, claim)
            failures = job.failures + 1
            if job.state is State.RUNNING and failures <= retries:
                return self._requeue(connection, claim, failures=failures)
            kept = None if job.state is State.CANCELLING else dumps(error)
            return self._close(connection, claim, State.FAILED, error=kept, failures=failures)

    def lose(self, claim: Claim, *, max_lost: int) -> Job:
        with self._write() as connection:
            return self._lose(connection, claim, _claimed(connection, claim), max_lost)

    def stall(self, claim: Claim, *, max_lost: int) -> Job:
        with self._write() as connection:
            job = _claimed(connection, claim)
            more = jobs.update().where(is_claimed(claim)).values(stalls=jobs.c.stalls + 1)
            connection.execute(more)
            if job.stalls == 0 and job.state is State.RUNNING:
                return self._requeue(connection, claim)
            return self._lose(connection, claim, job, max_lost)

    def interrupt(self, claim: Claim) -> Job:
        with self._write() as connection:
            return self._interrupt(connection, claim, _claimed(connection, claim))

    def release(self, claim: Claim) -> Job:
        with self._write() as connection:
            if _claimed(connection, claim).state is State.CANCELLING:
                return self._close(connection, claim, State.CANCELLED)
            return self._requeue(connection, claim)

    def clock(self) -> float:
        with self._read() as connection:
            return self._now(connection)

    def recover(self, owner: str | None, *, at: float | None = None) -> list[Job]:
        with self._write() as connection:
            late = jobs.c.lease_until < (self._now(connection) if at is None else at)
            mine = late if owner is None else jobs.c.owner == owner
            claimed = jobs.c.state.in_([state.value for state in CLAIMED])
            query = sa.select(jobs).where(claimed, mine).with_for_update(skip_locked=True)
            found = [job_of(row) for row in connection.execute(query)]
            return [
                self._interrupt(connection, Claim(job=job, attempt=job.attempt), job, deaths=1)
                for job in found
            ]

    def cancel(self, job_id: str) -> Job:
        with self._write() as connection:
            job = _existing(connection, job_id, lock=True)
            if job.terminal:
                raise problems.JobFinished(
                    f"Job {job_id} is over ({job.state}).", "Only unfinished jobs can be cancelled."
                )
            if job.state is State.CANCELLING:
                return job
            now = self._now(connection)
            queued = job.state is State.QUEUED
            values: dict[str, Any] = (
                {"state": State.CANCELLED.value, "finished": now, "not_before": None}
                if queued
                else {"state": State.CANCELLING.value}
            )
            changed = change(connection, jobs.c.seq == job.seq, state_event, now, **values)
            assert changed is not None  # the row is locked
            return changed

    def acquit(self, job_id: str) -> Job:
        with self._write() as connection:
            job = _existing(connection, job_id, lock=True)
            if job.terminal:
                raise problems.JobFinished(
                    f"Job {job_id} is over ({job.state}).", "Only unfinished jobs can be released."
                )
            now = self._now(connection)
            values = {"server_deaths": 0, "not_before": None}
            changed = change(connection, jobs.c.seq == job.seq, state_event, now, **values)
            assert changed is not None  # the row is locked
            return changed

    def delete(self, job_id: str) -> Job:
        with self._write() as connection:
            job = _existing(connection, job_id, lock=True)
            if job.state in CLAIMED:
                raise problems.JobNotFinished(
                    f"Job {job_id} is {job.state}.", "Cancel it first, then delete it."
                )
            connection.execute(jobs.delete().where(jobs.c.seq == job.seq))
            return job

    def _one_at_a_time(self, connection: sa.Connection) -> None:
        """Where owners may run so many jobs, two claims on PostgreSQL must not count at once."""
        if self._postgres and self._quota.running is not None:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CLAIMS)))

    def expire_jobs(self, *, before: float, limit: int) -> list[Job]:
        with self._write() as connection:
            return expiry.expire_jobs(connection, before, limit)

    def expire_modules(self, *, before: float, limit: int) -> list[str]:
        def expire() -> list[str]:
            with self._write() as connection:
                return expiry.expire_modules(connection, before, limit)

        return self._again(expire)

    def _again(self, transaction: Callable[[], Answer]) -> Answer:
        """On PostgreSQL two writes of one key can race; who lost finds the other's row next."""
        try:
            return transaction()
        except sa.exc.IntegrityError:
            return transaction()

    def _now(self, connection: sa.Connection) -> float:
        if self._wall is not None:
            return self._wall()
        clock = sa.select(sa.extract("epoch", sa.func.clock_timestamp()))
        return float(connection.execute(clock).scalar_one())

    def _size(self, connection: sa.Connection, sha256: str) -> int | None:
        query = sa.select(modules.c.size).where(modules.c.sha256 == sha256)
        return connection.execute(query).scalar_one_or_none()

    def _replayed(self, connection: sa.Connection, new: NewJob) -> Job | None:
        query = (
            sa.select(idempotency.c.fingerprint, jobs)
            .join(jobs, jobs.c.seq == idempotency.c.job)
            .where(idempotency.c.scope == new.scope, idempotency.c.key == new.key)
        )
        row = connection.execute(query).first()
        if row is None:
            return None
        if row.fingerprint != new.fingerprint:
            raise problems.IdempotencyMismatch(
                "This Idempotency-Key was used for another request.",
                "Use a new key for a new request.",
            )
        return job_of(row)

    def _check_queue(self, connection: sa.Connection, max_queued: int) -> None:
        query = sa.select(sa.func.count()).where(jobs.c.state == State.QUEUED.value)
        waiting = connection.execute(query).scalar_one()
        if waiting >= max_queued:
            raise problems.QueueFull(
                f"{waiting} jobs are waiting, which is the limit.",
                "Try again when some have run.",
                headers={"Retry-After": "10"},
            )

    def _end(self, claim: Claim, state: State, **values: Any) -> Job:
        with self._write() as connection:
            return self._close(connection, claim, state, **values)

    def _close(self, connection: sa.Connection, claim: Claim, state: State, **values: Any) -> Job:
        now = self._now(connection)
        cancelling = jobs.c.state == State.CANCELLING.value
        final = sa.case((cancelling, State.CANCELLED.value), else_=state.value)
        job = change(
            connection,
            is_claimed(claim),
            state_event,
            now,
            state=final,
            finished=now,
            **_UNCLAIM,
            **values,
        )
        return _fenced(job, claim)

    def _requeue(self, connection: sa.Connection, claim: Claim, **values: Any) -> Job:
        now = self._now(connection)
        values = {"state": State.QUEUED.value, "progress": None, **_UNCLAIM, **values}
        job = change(connection, is_claimed(claim), state_event, now, **values)
        return _fenced(job, claim)

    def _lose(self, connection: sa.Connection, claim: Claim, job: Job, max_lost: int) -> Job:
        lost = job.lost + 1
        if job.state is State.CANCELLING:
            return self._close(connection, claim, State.CANCELLED, lost=lost)
        if lost < max_lost:
            wait = self._wait(connection, job)
            return self._requeue(connection, claim, lost=lost, not_before=wait)
        error = problems.WorkerLost(
            f"The job's worker vanished {lost} times.", "Look at the server's log and memory."
        )
        instance = f"/v1/jobs/{job.id}"
        body = dumps(problems.describe(error, instance))
        return self._close(connection, claim, State.FAILED, lost=lost, error=body)

    def _interrupt(self, connection: sa.Connection, claim: Claim, job: Job, deaths: int = 0) -> Job:
        count, deaths = job.interruptions + 1, job.server_deaths + deaths
        values = {"interruptions": count, "server_deaths": deaths}
        if job.state is State.CANCELLING:
            return self._close(connection, claim, State.CANCELLED, **values)
        wait = self._wait(connection, replace(job, server_deaths=deaths))
        return self._requeue(connection, claim, not_before=wait, **values)

    def _wait(self, connection: sa.Connection, job: Job) -> float:
        """When the job may be claimed again after one more attempt that came to nothing."""
        times = job.lost + job.interruptions + 1
        return self._now(connection) + self._backoff.after(times, suspected=job.is_suspected)

    def _waited(self, now: float) -> sa.ColumnElement[bool]:
        """True of rows that may be claimed; a wait longer than any is of a clock set back since."""
        backoff = self._backoff
        longest = sa.case((suspicion.suspected(), backoff.longest_suspected), else_=backoff.longest)
        return sa.or_(
            jobs.c.not_before.is_(None),
            jobs.c.not_before <= now,
            jobs.c.not_before > now + longest,
        )


def _existing(connection: sa.Connection, job_id: str, *, lock: bool = False) -> Job:
    query = sa.select(jobs).where(jobs.c.id == job_id)
    # What cannot be an id is not asked for: PostgreSQL refuses some text (NUL) with an error.
    known = re.fullmatch("[0-9a-f]{32}", job_id) is not None
    row = connection.execute(query.with_for_update() if lock else query).first() if known else None
    if row is None:
        raise unknown_job(job_id)
    return job_of(row)


def _claimed(connection: sa.Connection, claim: Claim) -> Job:
    query = sa.select(jobs).where(is_claimed(claim)).with_for_update()
    row = connection.execute(query).first()
    return _fenced(job_of(row) if row else None, claim)


def _fenced(job: Job | None, claim: Claim) -> Job:
    if job is None:
        raise StaleClaim(claim.job.id)
    return job
