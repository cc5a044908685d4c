"""Whose a job or a module is, what an owner may use, and whose job comes next.

An owner is who a key belongs to. (`jobs.owner` is another thing: the server that has the claim.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toast.service import problems
from toast.service.ledger.states import CLAIMED, State
from toast.service.ledger.tables import jobs, module_owners, modules, owners

MINUTE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The most that one owner may use; None is no limit.

    `queued` and `running` are jobs, `stored` bytes of modules and results, `rate` jobs that are
    submitted in a minute.
    """

    queued: int | None = None
    running: int | None = None
    stored: int | None = None
    rate: int | None = None


def record_use(connection: sa.Connection, owner: str, sha256: str, now: float) -> bool:
    """Note that the owner uploaded a module or made a job for it; whether it was new to the owner.

    Who makes a job for the module of another, as admins may, has it from then on.
    """
    mine = sa.and_(module_owners.c.owner == owner, module_owners.c.sha256 == sha256)
    if connection.execute(module_owners.update().where(mine).values(used=now)).rowcount:
        return False
    row = {"owner": owner, "sha256": sha256, "created": now, "used": now}
    connection.execute(module_owners.insert().values(row))
    return True


def owns_module(connection: sa.Connection, owner: str, sha256: str) -> bool:
    """Whether the owner uploaded the module."""
    query = sa.select(module_owners.c.sha256).where(
        module_owners.c.owner == owner, module_owners.c.sha256 == sha256
    )
    return connection.execute(query).first() is not None


def stored_bytes(connection: sa.Connection, owner: str) -> int:
    """Bytes of the owner's modules and of the results of the owner's jobs.

    What two owners uploaded is on the disk once and counts for both, and so does a result for each
    job that was given it.
    """
    uploaded = (
        sa.select(sa.func.coalesce(sa.func.sum(modules.c.size), 0))
        .join(module_owners, module_owners.c.sha256 == modules.c.sha256)
        .where(module_owners.c.owner == owner)
    )
    results = sa.select(sa.func.coalesce(sa.func.sum(jobs.c.stored_bytes), 0)).where(
        jobs.c.owned_by == owner
    )
    return int(connection.execute(uploaded).scalar_one()) + int(
        connection.execute(results).scalar_one()
    )


def check_room(connection: sa.Connection, owner: str, quota: Quota, size: int) -> None:
    """Refuse `size` more bytes of an owner whose quota they would exceed."""
    if quota.stored is None:
        return
    used = stored_bytes(connection, owner)
    if used + size > quota.stored:
        raise problems.QuotaExceeded(
            "stored",
            f"{used} bytes are stored for {_called(owner)} and {quota.stored} may be; "
            f"{size} more do not fit (quota: stored).",
            "Delete jobs and modules that are done with.",
            retry_after=MINUTE,
        )


def check_rate(
    connection: sa.Connection, owner: str, quota: Quota, now: float, *, postgres: bool
) -> None:
    """Count one more submission of the owner, and refuse it above the quota of this minute.

    The row of the owner is locked by that: two submissions at once see each other's jobs.
    """
    submitted = _count_submission(connection, owner, now, postgres=postgres)
    if quota.rate is not None and submitted > quota.rate:
        raise problems.QuotaExceeded(
            "rate",
            f"{quota.rate} jobs were submitted for {_called(owner)} in this minute, "
            "which is the limit (quota: rate).",
            "Try again in the next minute.",
            retry_after=math.ceil(MINUTE - now % MINUTE),
        )


def check_waiting(connection: sa.Connection, owner: str, quota: Quota) -> None:
    """Refuse one more job that will wait and leave a result, where a quota is reached."""
    if quota.queued is not None:
        query = sa.select(sa.func.count()).where(
            jobs.c.state == State.QUEUED.value, jobs.c.owned_by == owner
        )
        waiting = connection.execute(query).scalar_one()
        if waiting >= quota.queued:
            raise problems.QuotaExceeded(
                "queued",
                f"{waiting} jobs of {_called(owner)} are waiting, "
                "which is the limit (quota: queued).",
                "Try again when some have run, or cancel some.",
                retry_after=10,
            )
    check_room(connection, owner, quota, 1)


def next_job(
    may_run: sa.ColumnElement[bool], quota: Quota, last: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    """The job to claim: of the owner with the fewest running, the oldest; rows of `last` last."""
    running = (
        sa.select(jobs.c.owned_by, sa.func.count().label("jobs"))
        .where(jobs.c.state.in_([state.value for state in CLAIMED]))
        .group_by(jobs.c.owned_by)
        .subquery("running")
    )
    busy = sa.func.coalesce(running.c.jobs, 0)
    query = (
        sa.select(jobs)
        .outerjoin(running, running.c.owned_by == jobs.c.owned_by)
        .where(may_run)
        .order_by(last, busy, jobs.c.seq)
        .limit(1)
        .with_for_update(skip_locked=True, of=jobs)  # PostgreSQL; SQLite has one writer
    )
    return query if quota.running is None else query.where(busy < quota.running)


def _count_submission(connection: sa.Connection, owner: str, now: float, *, postgres: bool) -> int:
    """How many jobs the owner submitted in this minute, this one counted."""
    minute = int(now // MINUTE)
    insert = (postgresql.insert if postgres else sqlite.insert)(owners)
    same = owners.c.minute == minute
    upsert = insert.values(name=owner, minute=minute, submitted=1).on_conflict_do_update(
        index_elements=[owners.c.name],
        set_={"minute": minute, "submitted": sa.case((same, owners.c.submitted + 1), else_=1)},
    )
    return int(connection.execute(upsert.returning(owners.c.submitted)).scalar_one())


def _called(owner: str) -> str:
    return f"owner {owner!r}" if owner else "this service"
