"""A full disk, a database that is away, no process to be had: no job pays for them."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.service.harness import Server, check_problem, fake_engine
from tests.service.tcp_proxy import Proxy
from toast.service import problems
from toast.service.server import make_context
from toast.service.settings import ServiceSettings
from toast.service.web.health import check_ready
from toast.service.work.dispatcher import Dispatcher

DISK_BYTES, FLOOR_BYTES = 24 << 20, 4 << 20


def make(tmp_path: Path, **settings: Any) -> Server:
    engine = fake_engine(tmp_path / "engine")
    return Server(tmp_path / "data", engine_command=engine, **{"drain": 1.0, **settings})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MiB at the server's data directory."""
    data = tmp_path / "data"
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(data)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk here")
    yield data
    subprocess.run(["umount", "--lazy", str(data)], check=True)


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    """No byte is left on the disk."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    yield
    ballast.unlink()


@contextlib.contextmanager
def moved_away(database: Path) -> Iterator[None]:
    """The file of the database is not where the server looks for it."""
    elsewhere = database.with_suffix(".elsewhere")
    database.rename(elsewhere)
    yield
    elsewhere.rename(database)


def ready_again(server: Server, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while (answer := server.client.get("/readyz")).status_code != 200:
        assert time.monotonic() < end, answer.text
        time.sleep(0.05)


def unharmed(job: dict[str, Any]) -> None:
    assert (job["state"], job["failures"], job["lost_workers"], job["error"]) == (
        "succeeded", 0, 0, None,
    )  # fmt: skip


def test_a_full_disk_fails_no_job(tmp_path: Path, small_disk: Path) -> None:
    with make(tmp_path, workers=2, min_free=FLOOR_BYTES) as server:
        module = server.upload("success 1")
        running, short = server.submit("slow 1.5")["id"], server.submit("slow 0.5")["id"]
        server.until_progress(running)
        with full(small_disk):
            check_problem(server.client.get("/readyz"), 503, "not_ready", "The disk of the")
            refused = server.client.post("/v1/modules", content=b"success 2")
            check_problem(refused, 507, "disk_full")
            assert int(refused.headers["retry-after"]) > 0
            body = {"module": module, "mesh": "data=2"}
            check_problem(server.client.post("/v1/jobs", json=body), 507, "disk_full")
            time.sleep(2.0)
            assert {server.job(job)["state"] for job in (running, short)} == {"running"}
        ready_again(server)
        for job in (running, short, server.submit("success 3")["id"]):
            unharmed(server.finished(job))


def test_an_upload_that_fills_the_disk_leaves_nothing(tmp_path: Path, small_disk: Path) -> None:
    with make(tmp_path, min_free=FLOOR_BYTES) as server:
        huge = server.client.post("/v1/modules", content=b"x" * (2 * DISK_BYTES))
        check_problem(huge, 507, "disk_full")
        assert list((small_disk / "artifacts" / "incoming").iterdir()) == []
        ready_again(server)
        unharmed(server.finished(server.submit("success")["id"]))


def test_an_engine_that_meets_a_full_disk_is_run_again(tmp_path: Path, small_disk: Path) -> None:
    with make(tmp_path, min_free=FLOOR_BYTES) as server:
        done = server.finished(server.submit("fill-once")["id"])
        unharmed(done)
        assert (done["attempt"], done["interruptions"]) == (2, 1)


def test_below_the_floor_nothing_is_taken_in(tmp_path: Path) -> None:
    with make(tmp_path, min_free=1 << 60) as server:
        check_problem(server.client.get("/readyz"), 503, "not_ready", "below its floor")
        check_problem(server.client.post("/v1/modules", content=b"success"), 507, "disk_full")
        assert server.client.get("/healthz").status_code == 200


def test_a_database_that_is_away_fails_no_job(tmp_path: Path) -> None:
    database = tmp_path / "data" / "toast.db"
    with make(tmp_path, lease=3.0) as server:
        job = server.submit("slow 1")["id"]
        server.until_progress(job)
        with moved_away(database):
            check_problem(server.client.get("/readyz"), 503, "not_ready", "does not answer")
            refused = server.client.post("/v1/modules", content=b"success 4")
            check_problem(refused, 503, "database_unavailable")
            assert int(refused.headers["retry-after"]) > 0
            assert server.client.get("/metrics").status_code == 200
            time.sleep(2.5)  # meanwhile the engine ends, and its plan waits
            assert server.job(job)["state"] == "running"
            assert not database.exists()  # nobody made a new one in its place
        ready_again(server)
        done = server.finished(job)
        unharmed(done)
        assert (done["attempt"], done["interruptions"]) == (1, 0)
        assert server.client.get(done["links"]["plan"]).status_code == 200


def test_a_server_stops_without_its_database(tmp_path: Path) -> None:
    """A plan that waits for the database does not hold up the end; its job is done again."""
    with make(tmp_path, drain=0.5) as server:
        job = server.submit("slow 0.5")["id"]
        server.until_progress(job)
        with moved_away(tmp_path / "data" / "toast.db"):
            time.sleep(1.5)
            server.terminate()
            assert server.wait(15) == 0
        server.start()
        done = server.finished(job)
        unharmed(done)
        assert (done["attempt"], done["interruptions"]) == (2, 1)


def test_a_postgresql_that_is_away_fails_no_job(tmp_path: Path, postgres_url: str) -> None:
    url = sa.make_url(postgres_url)
    proxy = Proxy(f"{url.query['host']}/.s.PGSQL.5432")
    away = url.set(host="127.0.0.1", port=proxy.port, query={})
    through = away.render_as_string(hide_password=False)
    files = f"file://{tmp_path}/files"
    with make(tmp_path, database=through, artifacts=files, lease=3.0) as server:
        job = server.submit("slow 1")["id"]
        server.until_progress(job)
        with proxy.away():
            check_problem(server.client.get("/readyz"), 503, "not_ready", "does not answer")
            check_problem(server.client.get(f"/v1/jobs/{job}"), 503, "database_unavailable")
            refused = server.client.post("/v1/modules", content=b"success 4")
            check_problem(refused, 503, "database_unavailable")
            time.sleep(2.0)
        ready_again(server)
        done = server.finished(job)
        unharmed(done)
        assert (done["attempt"], done["interruptions"]) == (1, 0)
    proxy.close()


@pytest.mark.nightly
def test_a_database_that_somebody_locks_fails_no_job(tmp_path: Path) -> None:
    """As a copy of the file by another program does; nothing can be read then either."""
    with make(tmp_path) as server:
        job = server.submit("slow 1")["id"]
        server.until_progress(job)
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "toast.db")) as other:
            other.isolation_level = None
            other.execute("BEGIN EXCLUSIVE")
            check_problem(server.client.get(f"/v1/jobs/{job}"), 503, "database_unavailable")
            check_problem(server.client.get("/readyz"), 503, "not_ready")
            other.execute("ROLLBACK")
        ready_again(server)
        done = server.finished(job)
        unharmed(done)
        assert done["attempt"] == 1


def test_a_worker_that_cannot_be_started_is_tried_until_it_can(tmp_path: Path) -> None:
    missing = tmp_path / "python"
    _, *rest = fake_engine(tmp_path / "engine")
    data = tmp_path / "data"
    with Server(data, engine_command=[str(missing), *rest], longest_backoff=0.3) as server:
        job = server.submit("success")["id"]
        end = time.monotonic() + 10
        while server.job(job)["interruptions"] < 4:  # more than lost workers may be
            assert time.monotonic() < end
            time.sleep(0.05)
        assert server.job(job)["not_before"] > server.job(job)["created"]
        missing.symlink_to(sys.executable)
        done = server.finished(job)
        unharmed(done)
        assert done["not_before"] is None


def test_a_worker_that_somebody_stopped_is_no_crash_of_the_job(tmp_path: Path) -> None:
    with make(tmp_path) as server:
        done = server.finished(server.submit("stopped-once")["id"])
        assert (done["state"], done["attempt"], done["lost_workers"], done["failures"]) == (
            "succeeded", 2, 1, 0,
        )  # fmt: skip


def test_threads_that_ended_are_missed(tmp_path: Path) -> None:
    context = make_context(ServiceSettings(data=tmp_path, lease=0.3))
    dispatcher = Dispatcher(context)
    with pytest.raises(problems.NotReady, match="worker-0, leases"):
        check_ready(context, dispatcher)
    dispatcher.start()
    check_ready(context, dispatcher)
    dispatcher.stop()
    context.store.close()


def test_a_start_without_the_database_is_one_clear_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toast.service", "--data", str(tmp_path / "data"),
               "--port", "0", "--database", f"sqlite:///{tmp_path}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert "the database does not answer" in done.stderr
    assert "Traceback" not in done.stderr
