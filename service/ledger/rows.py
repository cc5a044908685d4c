"""Between rows and records, and the one way in which a job's row changes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from toast.service import problems
from toast.service.ledger.listening import announce
from toast.service.ledger.records import Claim, Event, Job, NewJob
from toast.service.ledger.states import CLAIMED, State
from toast.service.ledger.tables import events, jobs

EventOf = Callable[[Job], tuple[str, dict[str, Any]]]
"""The kind and the data of the event that a change of the job makes."""


def dumps(value: dict[str, Any]) -> str:
    """Compact JSON; infinities and NaN are refused rather than written as what is not JSON."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _loads(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


NAME = "name"
"""The key of a job's name in its stored request, beside the settings of the engine."""


def job_of(row: sa.Row[Any]) -> Job:
    """The record of a row of `jobs`."""
    request = _loads(row.request) or {}
    return Job(
        name=request.pop(NAME, ""),
        seq=row.seq,
        id=row.id,
        module=row.module,
        request=request,
        state=State(row.state),
        version=row.version,
        attempt=row.attempt,
        failures=row.failures,
        lost=row.lost,
        interruptions=row.interruptions,
        not_before=row.not_before,
        created=row.created,
        started=row.started,
        finished=row.finished,
        progress=_loads(row.progress),
        error=_loads(row.error),
        summary=_loads(row.summary),
        plan_sha256=row.plan_sha256,
        result_sha256=row.result_sha256,
        result_suffix=row.result_suffix,
        cached_from=row.cached_from,
        owned_by=row.owned_by,
        stalls=row.stalls,
        server_deaths=row.server_deaths,
    )


def event_of(row: sa.Row[Any]) -> Event:
    """The record of a row of `events`."""
    return Event(number=row.number, kind=row.kind, data=_loads(row.data) or {}, at=row.at)


def state_event(job: Job) -> tuple[str, dict[str, Any]]:
    """The event of a change of state."""
    data: dict[str, Any] = {"state": job.state.value, "attempt": job.attempt}
    if job.error is not None:
        data["error"] = job.error
    if job.summary is not None:
        data["summary"] = job.summary
    if job.not_before is not None:
        data["not_before"] = job.not_before
    return "state", data


def is_named(part: str, *, postgres: bool) -> sa.ColumnElement[bool]:
    """True of jobs whose name has this part, in capitals or not."""
    # On PostgreSQL text becomes JSON by a cast; on SQLite its functions read the text itself.
    coerced: Any = sa.cast if postgres else sa.type_coerce
    name: sa.ColumnElement[str] = coerced(jobs.c.request, sa.JSON)[NAME].as_string()
    return name.icontains(part, autoescape=True)


def unknown_job(job_id: str) -> problems.UnknownJob:
    """The one answer for a job that is not there, and for one that the caller may not see."""
    return problems.UnknownJob(
        f"There is no job {job_id!r}.", "GET /v1/jobs lists the jobs that exist."
    )


def is_claimed(claim: Claim) -> sa.ColumnElement[bool]:
    """The fence: true of the job's row while `claim` is the last one and the job is not over."""
    return sa.and_(
        jobs.c.seq == claim.job.seq,
        jobs.c.attempt == claim.attempt,
        jobs.c.state.in_([state.value for state in CLAIMED]),
    )


def insert_job(connection: sa.Connection, new: NewJob, now: float, **values: Any) -> Job:
    """A new job, queued unless `values` say otherwise, and its first event."""
    row: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "module": new.module,
        "request": dumps({**new.request, NAME: new.name} if new.name else new.request),
        "state": State.QUEUED.value,
        "version": 1,
        "attempt": 0,
        "failures": 0,
        "lost": 0,
        "created": now,
        "owned_by": new.owned_by,
        "cache_any": new.cache_any,
        "cache_exact": new.cache_exact,
    }
    insert = jobs.insert().values({**row, **values})
    job = job_of(connection.execute(insert.returning(*jobs.c)).one())

    def queued(job: Job) -> tuple[str, dict[str, Any]]:
        kind, data = state_event(job)
        return kind, data | new.noted

    _insert_event(connection, job, queued, now)
    return job


def change(
    connection: sa.Connection,
    where: sa.ColumnElement[bool],
    event: EventOf,
    now: float,
    **values: Any,
) -> Job | None:
    """Change the one row that `where` finds, raise its version, add the event; None for no row."""
    update = jobs.update().where(where).values(version=jobs.c.version + 1, **values)
    row = connection.execute(update.returning(*jobs.c)).one_or_none()
    if row is None:
        return None
    job = job_of(row)
    _insert_event(connection, job, event, now)
    return job


def _insert_event(connection: sa.Connection, job: Job, event: EventOf, now: float) -> None:
    kind, data = event(job)
    row = {"job": job.seq, "number": job.version, "kind": kind, "data": dumps(data), "at": now}
    connection.execute(events.insert().values(row))
    announce(connection, job.id, job.state)
