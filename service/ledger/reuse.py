"""Jobs that are given the result of an equal one, in place of a run of their own."""

from __future__ import annotations

import sqlalchemy as sa

from toast.service.ledger.records import CacheMode, Job, NewJob
from toast.service.ledger.rows import dumps, insert_job, job_of
from toast.service.ledger.states import State
from toast.service.ledger.tables import jobs

_CANDIDATES = 8
_STOPPED = ("deadline", "cancelled")
"""How a search ends that did not do all that its settings ask for."""


def candidates(connection: sa.Connection, new: NewJob) -> list[Job]:
    """The jobs whose result may be given to `new`, newest first."""
    column = jobs.c.cache_exact if new.cache is CacheMode.EXACT else jobs.c.cache_any
    key = new.cache_exact if new.cache is CacheMode.EXACT else new.cache_any
    if new.cache is CacheMode.OFF or key is None:
        return []
    query = (
        sa.select(jobs)
        .where(column == key, jobs.c.state == State.SUCCEEDED.value)
        .where(jobs.c.plan_sha256.is_not(None))
        .order_by(jobs.c.seq.desc())
        .limit(_CANDIDATES)
    )
    if new.sees is not None:  # even that another owner asked the same is not ours to tell
        query = query.where(jobs.c.owned_by == new.sees)
    found = [job_of(row) for row in connection.execute(query)]
    return [job for job in found if new.cache is CacheMode.ANY or _ran_to_its_end(job)]


def insert_with_result(connection: sa.Connection, new: NewJob, now: float) -> Job | None:
    """`new` as a job that has succeeded with the result of `new.source`; None if that is gone."""
    query = (
        sa.select(jobs)
        .where(jobs.c.id == new.source, jobs.c.plan_sha256.is_not(None))
        .with_for_update(read=True)  # a deletion waits until our row names the files as well
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    source = job_of(row)
    return insert_job(
        connection,
        new,
        now,
        # A result that answers the question of `new` need not be one that its settings give.
        cache_exact=new.cache_exact if new.cache is CacheMode.EXACT else None,
        state=State.SUCCEEDED.value,
        finished=now,
        plan_sha256=source.plan_sha256,
        result_sha256=source.result_sha256,
        result_suffix=source.result_suffix,
        stored_bytes=row.stored_bytes,
        summary=None if source.summary is None else dumps(source.summary),
        cached_from=source.id,
    )


def _ran_to_its_end(job: Job) -> bool:
    return (job.summary or {}).get("termination") not in _STOPPED
