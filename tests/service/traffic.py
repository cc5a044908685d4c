"""Callers of all kinds at once: what they ask of a server, and what it takes meanwhile."""

from __future__ import annotations

import gzip
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx2
import psutil

from tests.service.harness import Server

OVER = ("succeeded", "failed", "cancelled")
MODES = ("success", "success", "success", "slow 0.5", "slow 2", "error", "abort", "killed-once")
MIB = 1 << 20
PAUSE = 0.06
"""Seconds at most between two requests of a caller: eight callers ask some 200 times a second."""


@dataclass(slots=True)
class Traffic:
    """What callers did, and what came of it."""

    server: Server
    statuses: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def run(self, seconds: float, callers: int) -> list[Sample]:
        """Let callers ask for so long; what the server took, once a second or so."""
        end = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._call, args=(random.Random(number), end))
            for number in range(callers)
        ]
        for thread in threads:
            thread.start()
        samples = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(min(1.0, seconds / 60))
            samples.append(Sample.of(self.server))
        return samples

    def _call(self, chance: random.Random, end: float) -> None:
        with httpx2.Client(base_url=self.server.url, timeout=60, trust_env=False) as client:
            kinds: list[Kind] = chance.choices(list(KINDS), list(KINDS.values()), k=1000)
            for kind in itertools.cycle(kinds):
                if time.monotonic() >= end:
                    return
                time.sleep(chance.random() * PAUSE)
                try:
                    kind(self, client, chance)
                except httpx2.HTTPError as error:
                    with self.lock:
                        self.failures.append(f"{kind.__name__}: {error!r}")

    def note(self, answer: httpx2.Response) -> httpx2.Response:
        """Count an answer by what was asked and what came."""
        first = answer.request.url.path.split("/")[1:3]
        with self.lock:
            self.statuses[f"{answer.request.method} {'/'.join(first)} {answer.status_code}"] += 1
            if answer.status_code >= 500:
                self.failures.append(f"{answer.request.url.path}: {answer.text[:300]}")
        return answer

    def some_job(self, chance: random.Random) -> str | None:
        """One of the latest jobs."""
        with self.lock:
            return chance.choice(self.accepted[-40:]) if self.accepted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Bytes in memory, open descriptors and threads of a server's process."""

    memory: int
    descriptors: int
    threads: int

    @classmethod
    def of(cls, server: Server) -> Sample:
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        return cls(
            memory=process.memory_info().rss,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
        )


Kind = Callable[[Traffic, httpx2.Client, random.Random], None]


def submit(traffic: Traffic, client: httpx2.Client, chance: random.Random) -> None:
    """Upload a module of a few bytes, packed or not, and queue a job for it."""
    body = f"{chance.choice(MODES)}\n// {next(traffic.numbers)}".encode()
    packed = chance.random() < 0.3
    answer = traffic.note(
        client.post(
            "/v1/modules",
            content=gzip.compress(body) if packed else body,
            headers={"Content-Encoding": "gzip"} if packed else {},
        )
    )
    asked = {"module": answer.json()["id"], "mesh": "data=2", "cache": "off"}
    answer = traffic.note(client.post("/v1/jobs", json=asked))
    if answer.status_code == 202:
        with traffic.lock:
            traffic.accepted.append(answer.json()["id"])


def poll(traffic: Traffic, client: httpx2.Client, chance: random.Random) -> None:
    """Look at a job, sometimes for a while."""
    if (job := traffic.some_job(chance)) is not None:
        wait = {"wait": "1"} if chance.random() < 0.1 else {}
        traffic.note(client.get(f"/v1/jobs/{job}", params=wait))


def look(traffic: Traffic, client: httpx2.Client, chance: random.Random) -> None:
    """Open a page, a list, or what machines read."""
    paths = ("/", "/v1/jobs?limit=20", "/healthz", "/readyz", "/metrics", "/version", "/v1/devices")
    traffic.note(client.get(chance.choice(paths)))


def fetch(traffic: Traffic, client: httpx2.Client, chance: random.Random) -> None:
    """Take what a job made, if there is anything."""
    if (job := traffic.some_job(chance)) is not None:
        traffic.note(client.get(f"/v1/jobs/{job}/{chance.choice(('plan', 'module', 'report'))}"))


def watch(traffic: Traffic, client: httpx2.Client, chance: random.Random) -> None:
    """Open an event stream, and drop it after some lines or at its end."""
    if (job := traffic.some_job(chance)) is None:
        return
    with client.stream("GET", f"/v1/jobs/{job}/events") as answer:
        with traffic.lock:
            traffic.statuses[f"GET events {answer.status_code}"] += 1
        for _ in zip(range(chance.randint(1, 12)), answer.iter_lines(), strict=False):
            pass


def cancel(traffic: Traffic, client: httpx2.Client, chance: random.Random) -> None:
    """Cancel a job, or delete it."""
    if (job := traffic.some_job(chance)) is not None:
        if chance.random() < 0.5:
            traffic.note(client.post(f"/v1/jobs/{job}/cancel"))
        else:
            traffic.note(client.delete(f"/v1/jobs/{job}"))


def upload(traffic: Traffic, client: httpx2.Client, chance: random.Random) -> None:
    """Send a large module."""
    mark = f"success\n// {next(traffic.numbers)} ".encode()
    pieces = itertools.chain([mark], itertools.repeat(bytes(MIB), chance.choice((1, 8, 100))))
    answer = traffic.note(client.post("/v1/modules", content=pieces))
    traffic.note(client.delete(f"/v1/modules/{answer.json()['id']}"))


def err(traffic: Traffic, client: httpx2.Client, chance: random.Random) -> None:
    """Ask for what cannot be had."""
    asked: Callable[[], httpx2.Response] = chance.choice(
        [
            lambda: client.post("/v1/modules", content=b"\x1f\x8b", headers=GZIP),
            lambda: client.post("/v1/jobs", json={"module": "0" * 64, "mesh": "data=2"}),
            lambda: client.post("/v1/jobs", content=b"{"),
            lambda: client.get("/v1/jobs/nothing"),
            lambda: client.get("/v1/nowhere"),
            lambda: client.request("BREW", "/v1/jobs"),
        ]
    )
    traffic.note(asked())


GZIP = {"Content-Encoding": "gzip"}
KINDS: dict[Kind, float] = {
    submit: 10,
    poll: 40,
    look: 15,
    fetch: 10,
    watch: 8,
    cancel: 3,
    err: 10,
    upload: 0.3,
}
