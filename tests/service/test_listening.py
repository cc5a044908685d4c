"""What one server does to a job another hears at once, through PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.service.harness import Server, fake_engine
from toast.service.ledger.database import open_database
from toast.service.ledger.listening import Listener
from toast.service.ledger.records import NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.ledger.states import State

MODULE = "a" * 64


class Ears:
    """A listener and what it heard."""

    def __init__(self, url: str) -> None:
        self.heard: list[tuple[str, State]] = []
        self.hears = threading.Event()
        self.listener = Listener(url, lambda *said: self.heard.append(said), self._hears)

    def _hears(self, yes: bool) -> None:
        (self.hears.set if yes else self.hears.clear)()

    def until(self, condition: Callable[[], bool], seconds: float = 10) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.heard
            time.sleep(0.01)


@pytest.fixture
def store(postgres_url: str) -> SqlJobStore:
    opened = SqlJobStore(open_database(postgres_url))
    opened.add_module(MODULE, 1)
    return opened


def test_each_change_is_heard_once_it_is_committed(store: SqlJobStore, postgres_url: str) -> None:
    ears = Ears(postgres_url)
    ears.listener.start()
    assert ears.hears.wait(10)
    job, _ = store.create(NewJob(module=MODULE, request={}), max_queued=9)
    claim = store.claim("one", lease=30)
    assert claim is not None
    store.cancel(job.id)
    ears.until(lambda: len(ears.heard) == 3)
    states = [State.QUEUED, State.RUNNING, State.CANCELLING]
    assert ears.heard == [(job.id, state) for state in states]
    ears.listener.stop()
    assert not ears.hears.is_set()
    store.close()


def test_a_lost_connection_is_made_again(store: SqlJobStore, postgres_url: str) -> None:
    ears = Ears(postgres_url)
    ears.listener.start()
    assert ears.hears.wait(10)
    admin = sa.create_engine(postgres_url, poolclass=sa.NullPool)
    with admin.begin() as connection:
        connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND query ILIKE 'LISTEN%'"
            )
        )
    ears.until(lambda: not ears.hears.is_set())
    assert ears.hears.wait(10)
    store.create(NewJob(module=MODULE, request={}), max_queued=9)
    ears.until(lambda: len(ears.heard) == 1)
    ears.listener.stop()
    store.close()


def test_a_file_has_nothing_to_listen_to(tmp_path: Path) -> None:
    ears = Ears(f"sqlite:///{tmp_path}/jobs.db")
    ears.listener.start()
    assert not ears.hears.wait(0.2)
    ears.listener.stop()


def test_another_server_hears_of_a_cancel_and_of_an_end_at_once(
    tmp_path: Path, postgres_url: str
) -> None:
    def make(name: str) -> Server:
        return Server(
            tmp_path / name,
            database=postgres_url,
            artifacts=f"file://{tmp_path}/shared",
            engine_command=fake_engine(tmp_path / f"engine-{name}"),
            drain=1.0,
            lease=60.0,  # a renewal, by which a cancel would be learned of, comes after 20 s
        )

    with make("one") as one:
        job = one.submit("mute")["id"]  # tells nothing, so that no progress learns of it either
        one.until(job, "running")
        with make("two") as two:
            time.sleep(1.0)
            asked = time.monotonic()
            assert two.client.post(f"/v1/jobs/{job}/cancel").status_code == 202
            done = two.finished(job)
            assert done["state"] == "cancelled"
            assert time.monotonic() - asked < 4.5  # by polling it would be 5 s and more
