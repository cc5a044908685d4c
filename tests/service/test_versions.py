"""Servers of different versions on one ledger: nothing accepted is lost, failed or damaged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.service.harness import Server, check_problem, fake_engine
from tests.service.test_store import LEASE, MODULE, queued
from toast.request.portable import portable
from toast.request.request import PlanRequest
from toast.service.ledger.compatibility import keep_writers_out
from toast.service.ledger.database import (
    BadDatabase,
    Database,
    migrate,
    open_database,
    sqlite_url,
)
from toast.service.ledger.records import Hold, Job, NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.ledger.store import JobStore
from toast.service.problems import DatabaseAway
from toast.service.readable import why_unreadable

COLUMNS_OF_0_4 = "id, module, request, state, version, attempt, failures, lost, created"


def change(server: Server, statement: str, *values: str) -> None:
    with sqlite3.connect(server.data / "toast.db", timeout=30) as database:
        database.execute(statement, values)
    database.close()


def make(tmp_path: Path, **settings: Any) -> Server:
    engine = fake_engine(tmp_path / "engine")
    return Server(tmp_path / "data", engine_command=engine, drain=1.0, **settings)


NEWER: list[dict[str, Any]] = [
    {"mesh": "data=2", "quantum": True},
    {"mesh": "data=2", "device": "tpu-v99"},
    {"mesh": "data=2", "planner": "oracle"},
    {"mesh": "data=2", "form": "poem"},
    {"mesh": "donut:8"},
]


@pytest.mark.parametrize("request_of_newer", NEWER, ids=lambda request: str(sorted(request)))
def test_what_only_a_newer_version_understands_is_told(request_of_newer: dict[str, Any]) -> None:
    assert why_unreadable(request_of_newer)
    assert why_unreadable({"mesh": "data=2"}) is None


def test_a_job_of_a_newer_server_waits_while_others_run(tmp_path: Path) -> None:
    """As after a rollback, or beside a server that was upgraded first."""
    with make(tmp_path) as server:
        blocker = server.submit("slow 2")["id"]
        server.until(blocker, "running")
        newer = server.submit("success newer")["id"]
        older = server.submit("success")["id"]
        asked = json.dumps({"mesh": "data=2", "quantum": "entangled"})
        change(server, "UPDATE jobs SET request = ? WHERE id = ?", asked, newer)
        assert server.finished(older)["state"] == "succeeded"
        waits = server.job(newer)
        assert (waits["state"], waits["waits_for"]) == ("queued", "newer_worker")
        assert (waits["attempt"], waits["failures"], waits["interruptions"]) == (0, 0, 0)
        assert waits["request"] == {"mesh": "data=2", "quantum": "entangled"}
        assert 'toast_jobs_held{reason="newer_worker"} 1.0' in server.client.get("/metrics").text
        server.terminate()
        assert server.wait() == 0
        # The newer worker, which knows the setting.
        change(server, "UPDATE jobs SET request = ? WHERE id = ?", '{"mesh": "data=2"}', newer)
        server.start()
        done = server.finished(newer)
        assert (done["state"], done["attempt"], done["waits_for"]) == ("succeeded", 1, None)


def test_an_unreadable_job_is_looked_at_once(store: JobStore) -> None:
    """However often a worker comes, it neither claims the job nor reads it again."""
    unreadable, readable = queued(store), queued(store)
    asked: list[str] = []

    def reads(job: Job) -> bool:
        asked.append(job.id)
        return job.id != unreadable.id

    claim = store.claim("old", lease=LEASE, reads=reads)
    assert claim is not None
    assert claim.job.id == readable.id
    assert [store.claim("old", lease=LEASE, reads=reads) for _ in range(3)] == [None] * 3
    assert asked == [unreadable.id, readable.id]
    assert store.held()[Hold.NEWER_WORKER] == 1
    assert store.get(unreadable.id) == unreadable


def test_another_worker_takes_what_one_cannot_read(postgres_url: str) -> None:
    old, new = SqlJobStore(open_database(postgres_url)), SqlJobStore(open_database(postgres_url))
    job = queued(old)
    assert old.claim("old", lease=LEASE, reads=lambda _job: False) is None
    claim = new.claim("new", lease=LEASE)
    assert claim is not None
    assert claim.job.id == job.id
    old.close()
    new.close()


def test_a_setting_that_nobody_gave_is_not_written_down() -> None:
    """An older worker, which refuses what it does not know, can so run the job."""
    first = set(portable(PlanRequest(mesh="data=2")))
    assert {"mesh", "device", "seed", "refine"} <= first
    assert not first & {"microbatches", "recompute", "confirm", "fit", "accumulate", "advice"}
    given = portable(PlanRequest(mesh="data=2", fit=True, accumulate="f32"))
    assert set(given) - first == {"fit", "accumulate"}


@pytest.mark.parametrize("fields", [{}, {"fit": True}, {"confirm": 2, "slices": 2}])
def test_what_is_written_down_is_the_request(fields: dict[str, Any]) -> None:
    request = PlanRequest(mesh="data=2", **fields)
    assert PlanRequest.model_validate_json(json.dumps(portable(request))) == request


def test_a_server_of_before_goes_on_when_a_newer_one_has_migrated(tmp_path: Path) -> None:
    """What it writes leaves the new columns out."""
    url = sqlite_url(tmp_path / "jobs.db")
    engine = sa.create_engine(url)
    migrate(engine, "0004")
    store = SqlJobStore(open_database(url))  # the newer one
    store.add_module(MODULE, 3)
    with engine.begin() as connection:  # as the older one writes
        values = f"'{'b' * 32}', '{MODULE}', '{{}}', 'queued', 1, 0, 0, 0, 1001.0"
        connection.exec_driver_sql(f"INSERT INTO jobs ({COLUMNS_OF_0_4}) VALUES ({values})")
    engine.dispose()
    claim = store.claim("new", lease=LEASE)
    assert claim is not None
    assert (claim.job.id, claim.job.server_deaths) == ("b" * 32, 0)
    store.close()


def migrate_further(store: SqlJobStore, oldest: str) -> None:
    """What a migration of a later version leaves, that adds a column or breaks with the past."""
    with store._database.writer.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE jobs ADD COLUMN later TEXT DEFAULT 'x' NOT NULL")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        connection.exec_driver_sql(f"UPDATE ledger SET oldest = '{oldest}'")


def test_we_go_on_when_a_newer_version_added_something(store: SqlJobStore) -> None:
    migrate_further(store, "0005")
    store.ping()
    job = queued(store)
    assert store.claim("me", lease=LEASE) is not None
    assert [one.id for one in store.page(limit=9, before=None, state=None)] == [job.id]


def test_we_write_nothing_when_a_newer_version_broke_with_us(store: SqlJobStore) -> None:
    job = queued(store)
    claim = store.claim("me", lease=LEASE)
    assert claim is not None
    migrate_further(store, "9999")
    for write in (
        lambda: store.create(NewJob(module=MODULE, request={}), max_queued=9),
        lambda: store.claim("me", lease=LEASE),
        lambda: store.renew(claim, lease=LEASE),
        lambda: store.interrupt(claim),
        lambda: store.cancel(job.id),
        lambda: store.recover("me"),
        store.ping,
    ):
        with pytest.raises(DatabaseAway, match="newer version"):
            write()
    assert store.get(job.id) == claim.job


def test_a_read_that_newer_tables_refuse_is_no_fault_of_ours(store: SqlJobStore) -> None:
    job = queued(store)
    migrate_further(store, "9999")
    with store._database.writer.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE jobs DROP COLUMN stalls")
    with pytest.raises(DatabaseAway):
        store.get(job.id)


def test_a_migration_waits_for_those_who_write(postgres_url: str) -> None:
    """And they for it: no transaction begins on old tables and ends on new ones."""
    store = SqlJobStore(open_database(postgres_url))
    impatient = sa.create_engine(postgres_url, connect_args={"options": "-c lock_timeout=300ms"})
    with store._write(), impatient.connect() as migration:
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            keep_writers_out(migration)
        migration.rollback()
    other = SqlJobStore(Database(writer=impatient, reader=impatient))
    with store._database.writer.begin() as migration:
        keep_writers_out(migration)
        with pytest.raises(DatabaseAway):
            queued(other)
    assert queued(other).version == 1
    other.close()
    store.close()


@pytest.mark.parametrize("oldest", ["0005", "9999"])
def test_a_server_starts_on_a_newer_ledger_where_it_may(tmp_path: Path, oldest: str) -> None:
    url = sqlite_url(tmp_path / "jobs.db")
    store = SqlJobStore(open_database(url))
    job = queued(store)
    migrate_further(store, oldest)
    store.close()
    if oldest == "9999":
        with pytest.raises(BadDatabase, match="start that version"):
            open_database(url)
        return
    again = SqlJobStore(open_database(url))
    assert again.get(job.id) == job
    again.close()


def test_a_running_server_says_503_when_a_newer_one_broke_with_it(tmp_path: Path) -> None:
    with make(tmp_path) as server:
        job = server.submit("slow 60")["id"]
        server.until_progress(job)
        change(server, "UPDATE ledger SET oldest = '9999'")
        assert server.client.get("/readyz").status_code == 503
        body = {"module": server.job(job)["module"], "mesh": "data=2"}
        refused = server.client.post("/v1/jobs", json=body)
        check_problem(refused, 503, "database_unavailable", "newer version")
        assert server.job(job)["state"] == "running"
        change(server, "UPDATE ledger SET oldest = '0005'")
        assert server.client.get("/readyz").status_code == 200
        assert server.client.post(f"/v1/jobs/{job}/cancel").status_code == 202
        assert server.finished(job)["state"] == "cancelled"
