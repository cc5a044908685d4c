"""What leaves the ledger: jobs that ended long ago, and modules that no job names."""

from __future__ import annotations

import sqlalchemy as sa

from toast.service import problems
from toast.service.ledger.records import Job, Module
from toast.service.ledger.rows import job_of
from toast.service.ledger.tables import jobs, modules

_UNUSED = ~sa.exists().where(jobs.c.module == modules.c.sha256)


def expire_jobs(connection: sa.Connection, before: float, limit: int) -> list[Job]:
    """Delete up to `limit` jobs that ended before that time, the oldest first."""
    old = (
        sa.select(jobs.c.seq)
        .where(jobs.c.finished < before)
        .order_by(jobs.c.finished)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    delete = jobs.delete().where(jobs.c.seq.in_(old)).returning(*jobs.c)
    return [job_of(row) for row in connection.execute(delete)]


def expire_modules(connection: sa.Connection, before: float, limit: int) -> list[str]:
    """Delete up to `limit` modules that no job names and nobody used since that time."""
    old = sa.select(modules.c.sha256).where(modules.c.used < before, _UNUSED).limit(limit)
    delete = modules.delete().where(modules.c.sha256.in_(old), _UNUSED)
    return list(connection.execute(delete.returning(modules.c.sha256)).scalars())


def module_of(connection: sa.Connection, sha256: str) -> Module:
    """The module with that id; raises `ModuleNotFound`."""
    count = sa.select(sa.func.count()).where(jobs.c.module == sha256).scalar_subquery()
    query = sa.select(modules, count.label("jobs")).where(modules.c.sha256 == sha256)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise problems.ModuleNotFound(
            f"There is no module {sha256}.", "Upload it with POST /v1/modules."
        )
    return Module(
        sha256=row.sha256, size=row.size, created=row.created, used=row.used, jobs=row.jobs
    )


def delete_module(connection: sa.Connection, sha256: str) -> None:
    """Delete a module that no job names; raises `ModuleNotFound` and `ModuleInUse`."""
    delete = modules.delete().where(modules.c.sha256 == sha256, _UNUSED)
    if connection.execute(delete).rowcount == 0:
        count = module_of(connection, sha256).jobs
        raise problems.ModuleInUse(
            f"Module {sha256} is used by {count} job{'s' if count > 1 else ''}.",
            "Delete them first: GET /v1/jobs lists them with their modules.",
        )
