"""The guard between naming and removing files, for servers that share a PostgreSQL ledger.

It is an advisory lock of the database: shared for who names a file, exclusive for who removes one.
The lock belongs to an open transaction, so that PostgreSQL gives it back when its holder dies.

Why that is enough: the row of a file is committed before the shared lock is given back, and a
remover looks for rows after it got the exclusive lock, so it sees every row whose writer saw the
bytes. A writer that gets the lock after a remover finds the bytes gone and stores them again. A
holder whose connection broke has no lock any more; a remover therefore asks the database on that
very connection just before it removes. A writer whose connection broke meanwhile finds out when it
gives the lock back, reports that the database is away, and its caller sends the bytes again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from toast.service.ledger.faults import as_service_errors

_KEY = int.from_bytes(b"toast", "big")
_POOL, _MORE, _SECONDS = 4, 12, 10.0


class PostgresGuard:
    """Connections of its own: who holds the guard needs one of the ledger's as well."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(
            url, pool_size=_POOL, max_overflow=_MORE, pool_timeout=_SECONDS, pool_pre_ping=True
        )

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """See `toast.service.artifacts.guard.NamingGuard`."""
        with self._locked(sa.func.pg_advisory_xact_lock_shared(_KEY)):
            yield

    @contextlib.contextmanager
    def removing(self) -> Iterator[Callable[[], None]]:
        """See `toast.service.artifacts.guard.NamingGuard`."""
        with self._locked(sa.func.pg_advisory_xact_lock(_KEY)) as connection:
            yield lambda: _ask(connection)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _locked(self, lock: sa.Function[Any]) -> Iterator[sa.Connection]:
        with as_service_errors(), self._engine.begin() as connection:
            connection.execute(sa.select(lock))
            yield connection
            _ask(connection)


def _ask(connection: sa.Connection) -> None:
    with as_service_errors():
        connection.execute(sa.select(1))
