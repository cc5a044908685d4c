"""Servers and workers that are killed and stopped while they work; then every job is counted.

    python -m tests.service.kill_loop [--store sqlite|postgresql] [JOBS KILLS STALLS]

Two servers share one database, and with PostgreSQL a folder of files too. A client submits jobs and
asks again until it is told yes. Meanwhile servers and workers are killed (SIGKILL), and servers and
workers are stopped for longer than a lease (SIGSTOP, then SIGCONT), so that the other server takes
their jobs and they wake up to find that they lost them. At the end each job that was accepted must
have succeeded, with one result that was accepted once. What happened goes to stdout as JSON.

No job has its own worker killed more often than the service tries again (`max_lost` less one).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
import sqlalchemy as sa

from tests.service import postgres
from tests.service.harness import Server, fake_engine

LEASE = 1.0
MAX_LOST = 3
PATIENCE = 300.0
"""How long the jobs may take once nobody is killed any more."""
_ATTEMPT = re.compile(r"/work/([0-9a-f]{32})\.\d+$")


@dataclass
class Tally:
    """What was done to the service, and what it refused meanwhile."""

    done: Counter[str] = field(default_factory=Counter)
    workers_killed: Counter[str] = field(default_factory=Counter)


class KillLoop:
    """Two servers in `directory`, a client, and the chaos between them.

    A job takes `seconds`, so that there is work left until the last blow. `servers` is the part of
    the blows that servers get; their workers get the rest.
    """

    def __init__(
        self,
        directory: Path,
        jobs: int,
        kills: int,
        stalls: int,
        *,
        seconds: float = 3.0,
        servers: float = 0.5,
        database: str | None = None,
    ) -> None:
        self._random = random.Random(0)
        self._seconds, self._servers_share = seconds, servers
        self._jobs, self._kills, self._stalls = jobs, kills, stalls
        url = database or f"sqlite:///{directory / 'shared.db'}"
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        self._shared = None if database is None else directory / "files"
        files: dict[str, Any] = (
            {} if self._shared is None else {"artifacts": f"file://{self._shared}"}
        )
        engine = fake_engine(directory / "engine")
        self.servers = [
            Server(
                directory / name, database=url, engine_command=engine, workers=2, lease=LEASE,
                drain=1.0, max_lost=MAX_LOST, longest_backoff=1.0,
                longest_suspected=1.0, **files,
            )
            for name in ("one", "two")
        ]  # fmt: skip
        self.tally = Tally()
        self.accepted: dict[str, str] = {}
        self._submitted = threading.Event()

    def run(self) -> dict[str, Any]:
        """The whole loop; raises AssertionError where a promise is broken."""
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server)
            client = threading.Thread(target=self._submit_all)
            client.start()
            self._strike_all()
            client.join()
            self._wait_for_all()
            figures = self._check()
        return {"seconds": round(time.monotonic() - began, 1), **self.tally.done, **figures}

    def _submit_all(self) -> None:
        for number in range(self._jobs):
            text = f"slow {self._seconds} {number}"
            self.accepted[self._submit(text, f"key-{number}")] = text
        self._submitted.set()

    def _submit(self, text: str, key: str) -> str:
        """Ask one server after the other, with one key, until one says yes."""
        headers = {"Idempotency-Key": key}
        while True:
            for server in list(self.servers):
                with contextlib.suppress(httpx2.HTTPError, RuntimeError):
                    # Each server needs the file, for it may be the one that runs the job.
                    for each in self.servers:
                        each.client.post("/v1/modules", content=text, timeout=3)
                    body = {"module": hashlib.sha256(text.encode()).hexdigest(), "mesh": "data=2"}
                    answer = server.client.post("/v1/jobs", json=body, headers=headers, timeout=3)
                    if answer.status_code == 202:
                        return str(answer.json()["id"])
                    self.tally.done[f"refused_{answer.status_code}"] += 1
            time.sleep(0.05)

    def _strike_all(self) -> None:
        """Kills and stalls in random order, each as soon as there is something to strike."""
        blows = ["kill"] * self._kills + ["stall"] * self._stalls
        self._random.shuffle(blows)
        for blow in blows:
            while not self._strike(blow):
                time.sleep(0.02)
                if self._submitted.is_set() and not self._unfinished():
                    self.tally.done["blows_without_a_job_left"] += 1
                    break
            time.sleep(self._random.uniform(0.0, 0.2))

    def _strike(self, blow: str) -> bool:
        server = self._random.choice(self.servers)
        if self._random.random() >= self._servers_share:
            return self._strike_worker(server, blow)
        assert server.process is not None
        if not self._workers(server):
            return False
        if blow == "kill":
            server.kill()
            server.start()
        else:
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(self._random.uniform(1.2, 1.6) * LEASE)
            server.process.send_signal(signal.SIGCONT)
        self.tally.done[f"servers_{blow}ed"] += 1
        return True

    def _strike_worker(self, server: Server, blow: str) -> bool:
        for worker, job in self._workers(server):
            if blow == "kill" and self.tally.workers_killed[job] >= MAX_LOST - 1:
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                if blow == "kill":
                    worker.kill()
                    self.tally.workers_killed[job] += 1
                else:
                    worker.suspend()
                    time.sleep(1.2 * LEASE)
                    worker.resume()
                self.tally.done[f"workers_{blow}ed"] += 1
                return True
        return False

    def _workers(self, server: Server) -> list[tuple[psutil.Process, str]]:
        """The worker processes of a server, with their jobs, in random order."""
        assert server.process is not None
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(server.process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                    match = _ATTEMPT.search(child.cmdline()[-1])
                    if match is not None:
                        found.append((child, match[1]))
        self._random.shuffle(found)
        return found

    def _wait_for_all(self) -> None:
        end = time.monotonic() + PATIENCE
        while left := self._unfinished():
            assert time.monotonic() < end, f"{left} jobs never ended"
            time.sleep(0.1)

    def _unfinished(self) -> int:
        query = "SELECT count(*) FROM jobs WHERE finished IS NULL"
        return int(self._rows(query)[0][0])

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]

    def _check(self) -> dict[str, int]:
        """None lost, none failed, each result accepted once, and each is of its own module."""
        rows = self._rows(
            "SELECT id, state, attempt, failures, lost, interruptions, version, result_sha256"
            " FROM jobs"
        )
        assert {row[0] for row in rows} == set(self.accepted), "jobs were lost, or made twice"
        ends = Counter(
            job
            for job, data in self._rows(
                "SELECT jobs.id, data FROM events JOIN jobs ON job = seq WHERE kind = 'state'"
            )
            if json.loads(data)["state"] in ("succeeded", "failed", "cancelled")
        )
        figures: Counter[str] = Counter()
        for job, state, attempt, failures, lost, interruptions, version, result in rows:
            assert (state, failures, ends[job]) == ("succeeded", 0, 1), (job, state, failures)
            assert attempt == lost + interruptions + 1, (job, attempt, lost, interruptions)
            numbers = self._rows(
                f"SELECT number FROM events JOIN jobs ON job = seq WHERE id = '{job}'"
                " ORDER BY number"
            )
            assert [row[0] for row in numbers] == list(range(1, version + 1)), job
            assert self._file(result) == f"// sharded\n{self.accepted[job]}", job
            figures.update(attempts=attempt, lost_workers=lost, interruptions=interruptions)
        return {"jobs": len(rows), **figures}

    def _file(self, sha256: str) -> str:
        """The bytes of a result, which are shared or lie with the server that ran the job."""
        folders = [server.data / "artifacts" for server in self.servers]
        places = [folder / sha256[:2] / sha256 for folder in [self._shared or folders[0], *folders]]
        return next(place for place in places if place.exists()).read_text()


def main(arguments: list[str]) -> int:
    """Run the loop once in a directory of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("numbers", nargs="*", type=int, metavar="JOBS KILLS STALLS")
    given = parser.parse_args(arguments)
    jobs, kills, stalls = given.numbers or (300, 100, 50)
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="toast-kill-"))
        database = None
        if given.store == "postgresql":
            database = stack.enter_context(
                postgres.empty_database(stack.enter_context(postgres.cluster()))
            )
        figures = KillLoop(Path(name), jobs, kills, stalls, database=database).run()
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
