"""What leaves the ledger: jobs that ended long ago, and modules that no job names."""

from __future__ import annotations

import re

import sqlalchemy as sa

from toast.service import problems
from toast.service.ledger.records import Job, Module
from toast.service.ledger.rows import job_of
from toast.service.ledger.tables import jobs, module_owners, modules

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


def module_of(connection: sa.Connection, sha256: str, owner: str | None) -> Module:
    """The module with that id, as `owner` sees it, or anybody; raises `ModuleNotFound`."""
    query = sa.select(modules).where(modules.c.sha256 == sha256)
    named = sa.select(sa.func.count()).where(jobs.c.module == sha256)
    if owner is not None:
        mine = sa.and_(module_owners.c.sha256 == modules.c.sha256, module_owners.c.owner == owner)
        columns = (modules.c.sha256, modules.c.size, module_owners.c.created, module_owners.c.used)
        query = query.with_only_columns(*columns).join(module_owners, mine)
        named = named.where(jobs.c.owned_by == owner)
    row = connection.execute(query).one_or_none() if _may_be(sha256) else None
    if row is None:
        raise problems.ModuleNotFound(
            f"There is no module {sha256!r}.", "Upload it with POST /v1/modules."
        )
    count = connection.execute(named).scalar_one()
    return Module(sha256=row.sha256, size=row.size, created=row.created, used=row.used, jobs=count)


def delete_module(connection: sa.Connection, sha256: str, owner: str | None) -> None:
    """Delete a module that no job names; raises `ModuleNotFound` and `ModuleInUse`.

    Where `owner` is not its only one, it goes for that owner alone.
    """
    count = module_of(connection, sha256, owner).jobs
    if count:
        raise problems.ModuleInUse(
            f"Module {sha256} is used by {count} job{'s' if count > 1 else ''}.",
            "Delete them first: GET /v1/jobs lists them with their modules.",
        )
    theirs = module_owners.c.sha256 == sha256
    if owner is not None:
        mine = module_owners.delete().where(theirs, module_owners.c.owner == owner)
        connection.execute(mine)
    others = sa.exists().where(theirs) if owner is not None else sa.false()
    connection.execute(modules.delete().where(modules.c.sha256 == sha256, _UNUSED, ~others))


def _may_be(sha256: str) -> bool:
    """Whether that can be an id; PostgreSQL refuses some text (NUL) with an error."""
    return re.fullmatch("[0-9a-f]{64}", sha256) is not None
