"""Stores, and servers with the fake engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ray_cluster
from tests.service import postgres
from tests.service.harness import Server, fake_engine
from tests.service.machine import missing
from toast.service.ledger.backoff import Backoff
from toast.service.ledger.database import open_database, sqlite_url
from toast.service.ledger.sqlstore import SqlJobStore


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A skipped test alone is easily overlooked."""
    reasons = (postgres.missing(), ray_cluster.missing(), missing("namespace"), missing("filtered"))
    for reason in reasons:
        if reason is not None:
            terminalreporter.write_line(f"WARNING: {reason}", red=True, bold=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a real PostgreSQL whose user may create databases."""
    if (reason := postgres.missing()) is not None:
        pytest.skip(reason)
    with postgres.cluster() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with postgres.empty_database(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlJobStore]:
    """An empty job store."""
    url = sqlite_url(tmp_path / "jobs.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    opened = SqlJobStore(open_database(url), backoff=Backoff(first=0.0, longest=0.0))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two workers that the tests of a file share."""
    directory = tmp_path_factory.mktemp("server")
    engine = fake_engine(directory / "engine")
    with Server(directory / "data", engine_command=engine, workers=2, drain=1.0) as running:
        yield running
