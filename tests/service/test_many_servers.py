"""Several servers on one PostgreSQL and one store of files."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import object_store
from tests.service.harness import Server, fake_engine

JOBS = 10


@pytest.fixture(params=["file", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of files for several servers."""
    if request.param == "file":
        yield f"file://{tmp_path}/shared"
        return
    if (reason := object_store.missing()) is not None:
        pytest.skip(reason)
    with object_store.s3_server() as url:
        yield f"s3://toast/files?endpoint_url={url}"


def server(tmp_path: Path, name: str, database: str, artifacts: str) -> Server:
    return Server(
        tmp_path / name,
        environment=object_store.CREDENTIALS,
        engine_command=fake_engine(tmp_path / f"engine-{name}"),
        database=database,
        artifacts=artifacts,
        drain=1.0,
    )


def test_jobs_run_once_and_every_server_serves_them(
    tmp_path: Path, postgres_url: str, location: str
) -> None:
    one = server(tmp_path, "one", postgres_url, location)
    two = server(tmp_path, "two", postgres_url, location)
    with one, two:
        jobs = [one.submit(f"slow 0.2 {number}", seed=number)["id"] for number in range(JOBS)]
        for number, job in enumerate(jobs):
            done = two.finished(job)
            assert (done["state"], done["attempt"]) == ("succeeded", 1), done
            for either in (one, two):
                plan = either.client.get(f"/v1/jobs/{job}/plan")
                assert plan.json()["search"]["seed"] == number
                assert either.client.get(f"/v1/jobs/{job}/module").status_code == 200
        ran = [_finished(each) for each in (one, two)]
        assert sum(ran) == JOBS
        assert min(ran) > 0
        _deletion_is_seen(one, two, jobs[0])


def _finished(server: Server) -> int:
    lines = server.client.get("/metrics").text.splitlines()
    name = 'toast_jobs_finished_total{state="succeeded"} '
    return sum(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))


def _deletion_is_seen(one: Server, two: Server, job: str) -> None:
    assert one.client.delete(f"/v1/jobs/{job}").status_code == 204
    assert two.client.get(f"/v1/jobs/{job}").status_code == 404


def test_waiting_and_streams_see_what_another_server_does(
    tmp_path: Path, postgres_url: str
) -> None:
    location = f"file://{tmp_path}/shared"
    one = server(tmp_path, "one", postgres_url, location)
    two = server(tmp_path, "two", postgres_url, location)
    with one, two:
        busy = [one.submit(f"slow 30 {number}")["id"] for number in range(2)]
        for job in busy:
            one.until(job, "running")
        started = time.monotonic()
        for job in busy:
            assert two.client.post(f"/v1/jobs/{job}/cancel").status_code == 202
        for job in busy:
            assert one.finished(job)["state"] == "cancelled"
            assert two.events(job)[-1]["data"]["state"] == "cancelled"
        assert time.monotonic() - started < 15


def test_files_of_another_ledger_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "ledger").write_text("1" * 32)
    kept = tmp_path / "shared" / "aa" / ("a" * 64)
    kept.parent.mkdir()
    kept.write_text("theirs")
    command = [sys.executable, "-m", "toast.service", "--port", "0", "--data", str(tmp_path / "d")]
    command += ["--artifacts", f"file://{tmp_path}/shared"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "another ledger" in done.stderr
    assert "Traceback" not in done.stderr
    assert kept.read_text() == "theirs"


def test_a_shared_database_needs_shared_files(tmp_path: Path, postgres_url: str) -> None:
    command = [sys.executable, "-m", "toast.service", "--port", "0"]
    command += ["--data", str(tmp_path), "--database", postgres_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--artifacts" in done.stderr
    assert "Traceback" not in done.stderr
