"""Opens the database: SQLite in a file by default, PostgreSQL by URL.

SQLite gets one writing connection, whose transactions start with `BEGIN IMMEDIATE` (Python's
default defers the lock and lets two claims read the same row), and read-only connections beside
it. Its write-ahead log is used only where the library has the fix for the log-reset corruption.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from sqlalchemy.pool import QueuePool

from toast.service.ledger.compatibility import (
    configuration,
    is_migrated,
    is_newer,
    keep_writers_out,
    may_write,
)

_log = logging.getLogger("toast.service")

FIXED_WAL = (3, 51, 3)
"""The first SQLite version whose write-ahead log is safe to reset."""

_MIGRATING = int.from_bytes(b"migrate", "big")
_BUSY_MS = 5_000
_POOL_SECONDS = 10.0
"""Who waits longer for the database than this is told that it does not answer."""


class BadDatabase(ValueError):
    """The URL of the ledger cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """`writer` for transactions that write, `reader` for those that only read."""

    writer: sa.Engine
    reader: sa.Engine

    def close(self) -> None:
        """Give all connections back."""
        self.writer.dispose()
        if self.reader is not self.writer:
            self.reader.dispose()


def sqlite_url(path: Path) -> str:
    """The URL of the SQLite database in the file `path`."""
    return f"sqlite:///{path}"


def is_sqlite(url: str) -> bool:
    """Whether the database is a file that one process owns."""
    try:
        return sa.make_url(url).get_backend_name() == "sqlite"
    except sa.exc.ArgumentError as error:
        raise BadDatabase(f"{url!r} is no URL of a database") from error


def journal_mode(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """`WAL` where that is safe, else the rollback journal."""
    return "WAL" if version >= FIXED_WAL else "DELETE"


def open_database(url: str) -> Database:
    """Connect, bring the tables up to date, and return the two engines."""
    if is_sqlite(url):
        database = _open_sqlite(url)
    else:
        engine = _server_engine(url)
        database = Database(writer=engine, reader=engine)
    migrate(database.writer)
    return database


def _server_engine(url: str) -> sa.Engine:
    try:
        return sa.create_engine(
            url,
            pool_size=10,
            pool_pre_ping=True,
            pool_timeout=_POOL_SECONDS,
            connect_args=connect_limits(url),
        )
    except (ModuleNotFoundError, sa.exc.NoSuchModuleError) as error:
        raise BadDatabase(
            f"the database needs a driver that is not installed ({error}); pip install "
            "'toast-planner[postgres]' and write postgresql+psycopg://..."
        ) from error


def migrate(engine: sa.Engine, revision: str = "head") -> None:
    """Apply the migrations shipped in this package up to `revision`, in one transaction.

    A ledger that a newer version migrated stays as it is; raises `BadDatabase` where that version
    said that this one must not use it.
    """
    config = configuration()
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":  # servers may start at the same moment
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATING)))
        if is_newer(connection):
            if not may_write(connection):
                raise BadDatabase(
                    "a newer version of the service has changed the database so that this one "
                    "cannot use it; start that version"
                )
            _log.warning("a newer version of the service has migrated the database; going on")
            return
        if not is_migrated(connection):
            keep_writers_out(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def connect_limits(url: str) -> dict[str, int]:
    """What makes a network that swallows everything an error in place of a wait for ever."""
    if not sa.make_url(url).get_driver_name().startswith("psycopg"):
        return {}
    seconds = round(_POOL_SECONDS)
    return {"connect_timeout": seconds, "tcp_user_timeout": 1000 * seconds}


def _open_sqlite(url: str) -> Database:
    path = sa.make_url(url).database
    if not path or path == ":memory:":
        raise ValueError("the job table must outlive the process: give SQLite a file")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).touch(mode=0o600)
    with contextlib.suppress(PermissionError):  # another user's, who shares it with us
        Path(path).chmod(0o600)
    # Not created by a connection: a file that was moved away must be missed, not replaced.
    writer = _sqlite_engine(f"sqlite:///file:{path}?mode=rw&uri=true", "BEGIN IMMEDIATE", size=1)
    reader = _sqlite_engine(f"sqlite:///file:{path}?mode=ro&uri=true", "BEGIN", size=8)
    return Database(writer=writer, reader=reader)


def _sqlite_engine(url: str, begin: str, *, size: int) -> sa.Engine:
    # A caller waits for the one writing connection rather than failing: the lock is in the pool.
    engine = sa.create_engine(
        url, poolclass=QueuePool, pool_size=size, max_overflow=0, pool_timeout=_POOL_SECONDS
    )
    sa.event.listen(engine, "connect", _on_connect(write=size == 1))

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _on_connect(*, write: bool) -> Callable[[Any, Any], None]:
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun by the engine, never implied
        connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
        connection.execute("PRAGMA foreign_keys=ON")
        if write:
            connection.execute(f"PRAGMA journal_mode={journal_mode()}")
            connection.execute("PRAGMA synchronous=FULL")

    return prepare
