"""The guard between naming and removing files, on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from toast.service.ledger.naming_guard import PostgresGuard
from toast.service.problems import DatabaseAway

SHORT = 0.3


@pytest.fixture
def guards(postgres_url: str) -> Iterator[tuple[PostgresGuard, PostgresGuard]]:
    """Those of two servers."""
    pair = PostgresGuard(postgres_url), PostgresGuard(postgres_url)
    yield pair
    for guard in pair:
        guard.close()


def test_many_name_at_once(guards: tuple[PostgresGuard, PostgresGuard]) -> None:
    with guards[0].naming(), guards[1].naming():
        pass


def test_a_remover_waits_for_the_row_of_another_server(
    guards: tuple[PostgresGuard, PostgresGuard],
) -> None:
    removing = threading.Event()

    def remove() -> None:
        with guards[1].removing():
            removing.set()

    thread = threading.Thread(target=remove)
    with guards[0].naming():
        thread.start()
        assert not removing.wait(SHORT)
    thread.join()
    assert removing.is_set()


def test_who_names_waits_for_a_removal(guards: tuple[PostgresGuard, PostgresGuard]) -> None:
    naming = threading.Event()

    def name() -> None:
        with guards[1].naming():
            naming.set()

    thread = threading.Thread(target=name)
    with guards[0].removing():
        thread.start()
        assert not naming.wait(SHORT)
    thread.join()
    assert naming.is_set()


def test_a_remover_that_lost_the_guard_removes_nothing(
    guards: tuple[PostgresGuard, PostgresGuard], postgres_url: str
) -> None:
    def remove() -> None:
        with guards[0].removing() as check:
            _cut_connections(postgres_url)
            check()
            pytest.fail("it would have removed the file")

    with pytest.raises(DatabaseAway):
        remove()


def _cut_connections(url: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    others += " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with engine.connect() as connection:
        connection.execute(sa.text(others))
