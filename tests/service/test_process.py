"""What the server process must not have in it, and what its database looks like."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.dialects import postgresql

from tests.service.harness import Server
from toast.service.ledger.database import journal_mode, migrate, open_database, sqlite_url
from toast.service.ledger.owners import Quota, next_job
from toast.service.ledger.records import NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.ledger.tables import jobs, metadata

FORBIDDEN = (
    "jax",
    "jaxlib",
    "numba",
    "numpy",
    "scipy",
    "toast.pipeline.plan_module",
    "toast.analysis.program",
    "toast.plans.plan",
)


def test_the_server_never_loads_the_engine(server: Server) -> None:
    """A module is parsed where it may abort: not in this process, not even by an import."""
    server.finished(server.submit("success")["id"])
    server.client.post("/v1/plan?mesh=data=2", content=b"success")
    (server.data / "modules.ask").touch()
    report = server.data / "modules.txt"
    for _ in range(200):
        if report.exists():
            break
        time.sleep(0.05)
    loaded = set(report.read_text().split())
    assert "toast.service.work.dispatcher" in loaded
    assert {name for name in FORBIDDEN if name in loaded} == set()


def test_migrations_make_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    database = open_database(sqlite_url(tmp_path / "jobs.db"))
    with database.writer.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        text = connection.execute(
            sa.text("SELECT sql FROM sqlite_master WHERE name = 'jobs'")
        ).scalar_one()
        assert "AUTOINCREMENT" in text
    migrate(database.writer)  # again: nothing to do
    database.close()


def test_a_database_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "jobs.db")
    engine = sa.create_engine(url)
    migrate(engine, "0001")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"INSERT INTO modules VALUES ('{'a' * 64}', 3, 1000.0)")
        connection.exec_driver_sql(
            "INSERT INTO jobs"
            " (id, module, request, state, version, attempt, failures, lost, created)"
            f" VALUES ('{'b' * 32}', '{'a' * 64}', '{{}}', 'queued', 1, 0, 0, 2, 1001.0)"
        )
    engine.dispose()
    store = SqlJobStore(open_database(url))
    job = store.get("b" * 32)
    assert (job.lost, job.interruptions, job.not_before, job.cached_from) == (2, 0, None, None)
    assert store.module("a" * 64).used == 1000.0
    claim = store.claim("me", lease=9.0)
    assert claim is not None
    assert store.interrupt(claim).interruptions == 1
    store.close()


def test_sqlite_is_opened_for_safety(tmp_path: Path) -> None:
    database = open_database(sqlite_url(tmp_path / "jobs.db"))
    with database.writer.connect() as connection:
        pragma = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("synchronous", "foreign_keys", "journal_mode")
        }
    assert pragma == {
        "synchronous": 2, "foreign_keys": 1, "journal_mode": journal_mode().lower(),
    }  # fmt: skip
    with (
        database.reader.connect() as connection,
        pytest.raises(sa.exc.OperationalError, match="readonly"),
    ):
        connection.execute(sa.delete(jobs))
    database.close()


@pytest.mark.parametrize(
    ("version", "mode"),
    [((3, 40, 1), "DELETE"), ((3, 51, 2), "DELETE"), ((3, 51, 3), "WAL"), ((4, 0, 0), "WAL")],
)
def test_the_write_ahead_log_waits_for_its_fix(version: tuple[int, ...], mode: str) -> None:
    assert journal_mode(version) == mode


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="outlive"):
        open_database(url)


def test_the_claim_is_one_locked_transaction_on_sqlite(tmp_path: Path) -> None:
    """No other claim comes between the look at the queue and the write."""
    database = open_database(sqlite_url(tmp_path / "jobs.db"))
    store, seen = SqlJobStore(database), list[str]()
    store.add_module("a" * 64, 1)
    store.create(NewJob(module="a" * 64, request={}), max_queued=1)

    @sa.event.listens_for(database.writer, "before_cursor_execute")
    def record(_c: object, _k: object, statement: str, *_rest: object) -> None:
        seen.append(" ".join(statement.split()[:2]))

    assert store.claim("me", lease=1.0) is not None
    assert seen[0] == "BEGIN IMMEDIATE"
    assert seen.count("UPDATE jobs") == 1
    assert not [one for one in seen[1:] if one.startswith(("BEGIN", "COMMIT", "ROLLBACK"))]
    store.close()


def test_the_claim_skips_locked_rows_on_postgresql() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    query = next_job(sa.true(), Quota(), sa.false())
    assert "FOR UPDATE OF jobs SKIP LOCKED" in str(query.compile(dialect=dialect))
