"""Servers of different versions on one ledger: who may still write after a migration.

The ledger says in `ledger.oldest` from which revision on servers may write. On PostgreSQL each
writing transaction reads that first, which a migration has to wait for, and the other way round. So
no transaction of an older server meets tables that it does not understand half-way.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from toast.service.ledger.tables import ledger
from toast.service.problems import DatabaseAway

_NEWER = "A newer version of the service has changed the database."


def configuration() -> Config:
    """Where the migrations of this version are."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


@cache
def own_revision() -> str:
    """The revision of the tables that this version was written for."""
    head = ScriptDirectory.from_config(configuration()).get_current_head()
    assert head is not None
    return head


@cache
def _known() -> frozenset[str]:
    scripts = ScriptDirectory.from_config(configuration())
    return frozenset(step.revision for step in scripts.walk_revisions())


def is_migrated(connection: sa.Connection) -> bool:
    """Whether the tables are those that this version was written for."""
    return _revision(connection) == own_revision()


def is_newer(connection: sa.Connection) -> bool:
    """Whether a version that we do not know has migrated this ledger."""
    found = _revision(connection)
    return found is not None and found not in _known()


def _revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def may_write(connection: sa.Connection) -> bool:
    """Whether this version may still write; held until the transaction ends (PostgreSQL)."""
    oldest = connection.execute(sa.select(ledger.c.oldest)).scalar_one()
    return bool(oldest <= own_revision())


def check_may_write(connection: sa.Connection) -> None:
    """Raise `DatabaseAway` where only newer versions may write."""
    if not may_write(connection):
        raise DatabaseAway(_NEWER)


def keep_writers_out(connection: sa.Connection) -> None:
    """On PostgreSQL wait for the transactions that write, and let none begin until the commit."""
    if connection.dialect.name == "postgresql" and sa.inspect(connection).has_table(ledger.name):
        connection.execute(sa.text(f"LOCK TABLE {ledger.name} IN ACCESS EXCLUSIVE MODE"))
