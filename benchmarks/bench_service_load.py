"""How long the service lets callers wait, with a job running beside it on the same machine.

    python -m benchmarks.bench_service_load [--polls 200] [--streams 1000] [--seconds 20]

A server of its own plans a module for the whole time. It is asked for that job `--polls` times a
second, first alone, then with `--streams` readers of the job's events, then while `--upload`
megabytes come in; a poll is timed from when it was due, so one that waits for another is counted.
The callers share the machine's cores with the server and its worker.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from examples import forms, mlp

CONNECTIONS = 16
_CHUNK = bytes(1 << 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is done at once for a while."""

    name: str
    polls: int
    streams: int = 0
    upload: int = 0
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Milliseconds of the polls, and what the server took.

    `cores` are seconds of its processor time a second, `peak_bytes` its most memory.
    """

    waits: list[float]
    failed: int
    cores: float
    peak_bytes: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--polls", type=int, default=200, help="polls a second")
    parser.add_argument("--streams", type=int, default=1000, help="readers of events")
    parser.add_argument("--upload", type=int, default=100, help="megabytes of an upload")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    given = parser.parse_args()
    columns = (">polls", ">failed", ">p50 ms", ">p99 ms", ">max ms", ">events", ">cores", ">MiB")
    table = Table("load", *(name.removeprefix(">") for name in columns), title="The service")
    common = {"polls": given.polls, "seconds": given.seconds}
    loads = [
        Load(name="polls", **common),
        Load(name=f"and {given.streams:,} streams", streams=given.streams, **common),
        Load(name=f"and {given.upload} MB uploaded", upload=given.upload << 20, **common),
    ]
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as (process, port):
        job = start_job(port, 3 * given.seconds + 60)
        for load in loads:
            with readers(port, job, load.streams) as events:
                found = asyncio.run(measure(load, process, port, job))
            table.add_row(load.name, *row(found, events()))
    Console(width=110).print(table)


def row(found: Measured, events: int) -> list[str]:
    """The cells of one measurement."""
    p50, p99, worst = np.percentile(found.waits, [50, 99, 100])
    times = [f"{value:.1f}" for value in (p50, p99, worst)]
    peak = f"{found.peak_bytes / 2**20:.0f}"
    return [
        str(len(found.waits)),
        str(found.failed),
        *times,
        f"{events:,}",
        f"{found.cores:.2f}",
        peak,
    ]


@contextlib.contextmanager
def service(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    """A server process on a port of its own."""
    command = [sys.executable, "-m", "toast.service", "--port", "0", "--data", str(folder / "data")]
    log = (folder / "log").open("w")
    environment = {name: text for name, text in os.environ.items() if name != "TOAST_API_KEYS"}
    with (
        log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)$", process.stdout.readline().strip())
            if found is None:
                raise RuntimeError((folder / "log").read_text())
            yield psutil.Process(process.pid), int(found[1])
        finally:
            process.terminate()


def start_job(port: int, seconds: float) -> str:
    """A job that runs so long; its id."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        module = forms.serialize(mlp.make_step(mlp.PRESETS["small"]), "text")
        uploaded = client.post("/v1/modules", content=module).json()["id"]
        asked = {"module": uploaded, "mesh": "data=2,model=2", "planner": "random"}
        asked |= {"budget": seconds, "rollouts": 100_000_000}
        job = client.post("/v1/jobs", json=asked).json()["id"]
        while client.get(f"/v1/jobs/{job}").json()["progress"] is None:
            time.sleep(0.1)
    return str(job)


async def measure(load: Load, process: psutil.Process, port: int, job: str) -> Measured:
    """Do all that a load asks for, and watch."""
    memory, begun, used = [process.memory_info().rss], time.monotonic(), cpu_seconds(process)
    beside = [asyncio.create_task(watch_memory(process, memory))]
    if load.upload:
        beside.append(asyncio.create_task(upload(port, load.upload)))
    waits, failed = await poll(load, port, job)
    cores = (cpu_seconds(process) - used) / (time.monotonic() - begun)
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    return Measured(waits=waits, failed=failed, cores=cores, peak_bytes=max(memory))


def cpu_seconds(process: psutil.Process) -> float:
    """What the server itself took of the processors."""
    times = process.cpu_times()
    return float(times.user + times.system)


async def poll(load: Load, port: int, job: str) -> tuple[list[float], int]:
    """Ask so often for so long; milliseconds from when each was due, and how many failed."""
    due: asyncio.Queue[float | None] = asyncio.Queue()
    waits: list[float] = []
    failed = [0]

    async def caller() -> None:
        async with connection(port) as (reader, writer):
            while (at := await due.get()) is not None:
                status, _ = await ask(reader, writer, f"/v1/jobs/{job}")
                waits.append(1000 * (time.perf_counter() - at))
                failed[0] += status != 200

    callers = [asyncio.create_task(caller()) for _ in range(CONNECTIONS)]
    start = time.perf_counter()
    for number in range(max(1, int(load.polls * load.seconds))):
        at = start + number / load.polls
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        due.put_nowait(at)
    for _ in callers:
        due.put_nowait(None)
    await asyncio.gather(*callers)
    return waits, failed[0]


@contextlib.asynccontextmanager
async def connection(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """One connection to the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
) -> tuple[int, Any]:
    """A GET on a connection that stays; the status and what came."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split()[1]), json.loads(body)


@contextlib.contextmanager
def readers(port: int, job: str, count: int) -> Iterator[Callable[[], int]]:
    """So many readers of a job's events, in a process of their own; how many events they got."""
    spawned = multiprocessing.get_context("spawn")
    ours, theirs = spawned.Pipe()
    process = spawned.Process(target=_read_all, args=(port, job, count, theirs))
    total = 0

    def events() -> int:
        return total

    if not count:
        yield events
        return
    process.start()
    try:
        ours.recv()  # all have got something
        yield events
        ours.send(None)
        total = ours.recv()
    finally:
        process.kill()
        process.join()


def _read_all(port: int, job: str, count: int, parent: Any) -> None:
    counted = [0] * count

    async def main() -> None:
        tasks = [asyncio.create_task(read_events(port, job, counted, n)) for n in range(count)]
        while not all(counted):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        parent.send(None)
        while not parent.poll():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        parent.send(sum(counted))
        for task in tasks:
            task.cancel()

    asyncio.run(main())


async def read_events(port: int, job: str, counted: list[int], number: int) -> None:
    """Read the events of a job and count them."""
    async with connection(port) as (reader, writer):
        path = f"/v1/jobs/{job}/events"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        while data := await reader.read(1 << 16):
            counted[number] += data.count(b"\nid: ")


async def upload(port: int, size: int) -> None:
    """Upload new modules of that size one after another."""
    while True:
        async with connection(port) as (reader, writer):
            head = f"POST /v1/modules HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n"
            writer.write(head.encode() + os.urandom(64))
            left = size - 64
            while left > 0:
                piece = _CHUNK[:left]
                writer.write(piece)
                left -= len(piece)
                await writer.drain()
            await reader.readuntil(b"\r\n\r\n")


async def watch_memory(process: psutil.Process, memory: list[int]) -> None:
    """Look at the server's memory ten times a second."""
    while True:
        memory.append(process.memory_info().rss)
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
