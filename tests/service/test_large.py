"""Large modules, plans and uploads, which other callers must not feel."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.service.harness import Server, fake_engine

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


def memory(server: Server) -> int:
    assert server.process is not None
    return int(psutil.Process(server.process.pid).memory_info().rss)


def test_uploads_take_no_memory(tmp_path: Path) -> None:
    def pieces(mark: bytes) -> Iterator[bytes]:
        yield mark
        for _ in range(100):
            yield bytes(1 << 20)

    with Server(tmp_path / "data", engine_command=fake_engine(tmp_path / "engine")) as server:
        server.client.post("/v1/modules", content=pieces(b"0"))
        before, most = memory(server), 0
        for mark in (b"1", b"2", b"3"):
            uploading = threading.Thread(
                target=lambda m=mark: server.client.post("/v1/modules", content=pieces(m))
            )
            uploading.start()
            while uploading.is_alive():
                most = max(most, memory(server))
                time.sleep(0.02)
        assert most - before < 24 << 20


def test_a_plan_of_300_000_arguments_holds_nobody_up(tmp_path: Path) -> None:
    count = 300_000
    given = ", ".join(f"%x{number}: tensor<8xf32>" for number in range(count))
    module = (
        f"func.func public @main({given}) -> tensor<8xf32> {{\n"
        "%0 = stablehlo.add %x0, %x1 : tensor<8xf32>\nreturn %0 : tensor<8xf32> }"
    )
    with Server(tmp_path / "data", workers=1) as server:
        before = memory(server)
        job = server.submit(module, device="cpu", rollouts=16, threads=1, advice=False)["id"]
        slowest, most, state = 0.0, 0, "queued"
        with httpx2.Client(base_url=server.url, trust_env=False, timeout=30) as other:
            while state not in ("succeeded", "failed"):
                begun = time.monotonic()
                assert other.get("/healthz").status_code == 200
                slowest = max(slowest, time.monotonic() - begun)
                most = max(most, memory(server))
                state = server.job(job)["state"]
                time.sleep(0.05)
        assert state == "succeeded", server.job(job)["error"]
        assert slowest < 1.0
        assert most - before < 100 << 20
