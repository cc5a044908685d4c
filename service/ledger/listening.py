"""Hears from PostgreSQL what other servers and workers did to jobs, when they do it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import sqlalchemy as sa

from toast.service.ledger.database import connect_limits, is_sqlite
from toast.service.ledger.states import State

_log = logging.getLogger("toast.service")

CHANNEL = "toast_jobs"
_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 2.0
_TEST_SECONDS = 5.0
"""How long a first word may take; longer, and something in between does not pass words on."""


def announce(connection: sa.Connection, job_id: str, state: State) -> None:
    """Tell all who listen, once this transaction is committed."""
    if connection.dialect.name == "postgresql":
        said = sa.func.pg_notify(CHANNEL, f"{job_id} {state.value}")
        connection.execute(sa.select(said))


class Listener:
    """A thread with a connection of its own.

    `changed` is called with each job that anybody changed, `heard` with whether words arrive now:
    not where the database is away, nor through a pooler that keeps no session.
    """

    def __init__(
        self, url: str, changed: Callable[[str, State], None], heard: Callable[[bool], None]
    ) -> None:
        self._url = url
        self._changed = changed
        self._heard = heard
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen_for_ever, name="listener")

    def start(self) -> None:
        """Begin to listen, where the database can speak."""
        if not is_sqlite(self._url) and _driver(self._url).startswith("psycopg"):
            self._thread.start()

    def stop(self) -> None:
        """Return when nothing is called any more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _listen_for_ever(self) -> None:
        limits = connect_limits(self._url)
        engine = sa.create_engine(
            self._url,
            poolclass=sa.NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args=limits,
        )
        warned = False
        while not self._over.is_set():
            try:
                self._listen(engine)
                warned = False
            except Exception as error:  # of whatever driver; what is polled goes on without
                if not warned:
                    _log.warning("changes of jobs are looked for, not heard: %s", _first(error))
                warned = True
            finally:
                self._heard(False)
            self._over.wait(_AGAIN_SECONDS)

    def _listen(self, engine: sa.Engine) -> None:
        with engine.connect() as connection, engine.connect() as other:
            connection.execute(sa.text(f"LISTEN {CHANNEL}"))
            other.execute(sa.select(sa.func.pg_notify(CHANNEL, "test")))
            driver = connection.connection.driver_connection
            assert driver is not None
            heard = [note.payload for note in driver.notifies(timeout=_TEST_SECONDS, stop_after=1)]
            if not heard:
                raise ConnectionError("the database passes no words on (a pooler of transactions?)")
            other.close()
            for payload in heard:
                self._hear(payload)
            self._heard(True)
            while not self._over.is_set():
                for note in driver.notifies(timeout=_LOOK_SECONDS):
                    self._hear(note.payload)

    def _hear(self, said: str) -> None:
        job, _, state = said.partition(" ")
        if state in set(State):
            self._changed(job, State(state))


def _driver(url: str) -> str:
    return sa.make_url(url).get_driver_name()


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
