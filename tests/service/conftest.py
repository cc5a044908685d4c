"""Stores, and servers with the fake engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.service.harness import Server, fake_engine
from toast.service.ledger.backoff import Backoff
from toast.service.ledger.database import open_database, sqlite_url
from toast.service.ledger.sqlstore import SqlJobStore

POSTGRES = os.environ.get("TOAST_TEST_POSTGRES")
"""The URL of an empty PostgreSQL database; with it the store's tests run on both."""

BACKENDS = ["sqlite", "postgresql"] if POSTGRES else ["sqlite"]


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlJobStore]:
    """An empty job store."""
    url = sqlite_url(tmp_path / "jobs.db")
    if request.param == "postgresql":
        assert POSTGRES is not None
        url = POSTGRES
        _empty(url)
    opened = SqlJobStore(open_database(url), backoff=Backoff(first=0.0, longest=0.0))
    yield opened
    opened.close()


def _empty(url: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    engine.dispose()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two workers that the tests of a file share."""
    directory = tmp_path_factory.mktemp("server")
    engine = fake_engine(directory / "engine")
    with Server(directory / "data", engine_command=engine, workers=2, drain=1.0) as running:
        yield running
