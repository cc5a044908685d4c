"""What the database says when it is away or full, as errors of the service.

A fault is never an answer: the caller learns that nothing is known, and may ask again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import sqlalchemy as sa

from toast.service.problems import DatabaseAway, DiskFull

_POSTGRES_DISK_FULL = "53100"

_OURS = (
    sa.exc.IntegrityError,
    sa.exc.ProgrammingError,
    sa.exc.DataError,
    sa.exc.NotSupportedError,
)
"""What the database says of our statements rather than of itself."""


@contextlib.contextmanager
def as_service_errors() -> Iterator[None]:
    """Raise `DatabaseAway` or `DiskFull` where the database fails for reasons of its own."""
    try:
        yield
    except _OURS:
        raise
    except (sa.exc.DatabaseError, sa.exc.InterfaceError) as error:
        if _is_full(error.orig):
            raise DiskFull("The disk of the database is full.") from error
        raise DatabaseAway(f"The database does not answer: {_said(error)}.") from error
    except sa.exc.TimeoutError as error:
        raise DatabaseAway("The database does not answer in time.") from error


def _is_full(error: BaseException | None) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return getattr(error, "sqlstate", None) == _POSTGRES_DISK_FULL


def _said(error: sa.exc.DBAPIError) -> str:
    """The kind of the error; its text may name paths and hosts that callers must not read."""
    return type(error.orig).__name__ if error.orig is not None else type(error).__name__
