"""Strangers who are slow, or too many, do not keep others out."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.harness import Server, fake_engine
from tests.service.raw_http import read_all
from toast.service.web.connections import raise_descriptors

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
SLOW_READERS = 'toast_http_connections_dropped_total{reason="slow_reader"}'
LIMITS: dict[str, Any] = {"header_timeout": 1.0, "body_rate": 1000, "max_address": 12}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of little patience."""
    directory = tmp_path_factory.mktemp("strict")
    engine = fake_engine(directory / "engine")
    with Server(directory / "data", engine_command=engine, drain=1.0, **LIMITS) as server:
        yield server


def connect(server: Server, data: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    assert server.client.base_url.port is not None
    place = ("127.0.0.1", server.client.base_url.port)
    made = socket.create_connection(place, timeout=10, source_address=(source, 0))
    made.sendall(data)
    return made


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def problem(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Type: application/problem+json" in head
    found = json.loads(body)
    assert int(head.split()[1]) == found["status"]
    return found["status"], found["code"]


def metric(server: Server, line: str) -> float:
    for found in server.client.get("/metrics").text.splitlines():
        if found.startswith(line + " "):
            return float(found.split()[-1])
    return 0.0


@pytest.mark.parametrize("descriptors", [1024, None])
def test_half_sent_headers_keep_nobody_out(tmp_path: Path, descriptors: int | None) -> None:
    raise_descriptors()
    engine = fake_engine(tmp_path / "engine")
    settings: dict[str, Any] = {"engine_command": engine, "drain": 1.0, "descriptors": descriptors}
    with contextlib.ExitStack() as stack, Server(tmp_path / "data", **settings) as server:
        for _ in range(1100):
            stack.enter_context(connect(server, HALF))
        begun = time.monotonic()
        assert httpx2.get(f"{server.url}/healthz", timeout=5, trust_env=False).text == "ok\n"
        assert time.monotonic() - begun < 2.0
        job = server.finished(server.submit("success")["id"])
        assert job["state"] == "succeeded"


def test_a_header_that_does_not_end_is_ended(strict: Server) -> None:
    for beginning in (HALF, b""):
        with connect(strict, beginning) as connection:
            assert problem(read_all(connection)) == (408, "slow_request")
    with connect(strict, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as connection:
        answer = b""
        while not answer.endswith(b"ok\n"):
            answer += connection.recv(4096)
        connection.sendall(HALF)  # the second request of a connection, as slow as that
        assert problem(read_all(connection)) == (408, "slow_request")


@pytest.mark.parametrize("path", ["/v1/modules", "/v1/jobs/x/cancel"])
def test_a_body_that_trickles_is_ended(strict: Server, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n".encode()
    with connect(strict, head) as connection:
        connection.settimeout(0.1)
        answer, end = b"", time.monotonic() + 8
        while time.monotonic() < end:
            try:
                connection.sendall(b"x")
                chunk = connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
            if not chunk:
                break
            answer += chunk
        else:
            raise AssertionError("it was not ended")
    if path == "/v1/modules":
        assert problem(answer) == (408, "slow_request")
    until(lambda: not list((strict.data / "artifacts" / "incoming").iterdir()))


def test_a_body_that_comes_slowly_but_surely_is_taken(strict: Server) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            time.sleep(0.1)
            yield b"y" * 500

    answer = strict.client.post("/v1/modules", content=pieces())
    assert (answer.status_code, answer.json()["size"]) == (201, 15_000)


def test_an_answer_that_nobody_reads_is_ended(strict: Server) -> None:
    job = strict.finished(strict.submit("success" + " " * (24 << 20))["id"])
    before = metric(strict, SLOW_READERS)
    path = job["links"]["module"]
    with connect(strict, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()):
        until(lambda: metric(strict, SLOW_READERS) > before)


def test_one_address_has_so_many_connections_and_no_more(strict: Server) -> None:
    job = strict.submit("slow 60")
    path = f"GET /v1/jobs/{job['id']}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(LIMITS["max_address"]):
            stream = stack.enter_context(connect(strict, path))
            assert b"200" in stream.recv(4096)
        with connect(strict, HALF) as connection:
            assert problem(read_all(connection)) == (503, "too_many_connections")
        with connect(strict, path, source="127.0.0.2") as connection:
            assert b"200" in connection.recv(4096)
    strict.client.post(f"/v1/jobs/{job['id']}/cancel")
    strict.finished(job["id"])


def test_who_waits_longest_makes_room(strict: Server) -> None:
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connect(strict, HALF)) for _ in range(30)]
        with httpx2.Client(base_url=strict.url, trust_env=False) as honest:
            assert honest.get("/healthz").text == "ok\n"
        assert read_all(waiting[0]) == b""
    assert metric(strict, 'toast_http_connections_dropped_total{reason="evicted"}') > 0


@pytest.mark.parametrize(
    "sent",
    [b"\x00\x01\x02\r\n\r\n", b"GET /\r\n\r\n", b"X" * 100_000,
     b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http_gets_a_problem(strict: Server, sent: bytes) -> None:
    with connect(strict) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(sent)
        assert problem(read_all(connection)) == (400, "invalid_request")


@pytest.mark.parametrize("host", ["[", "]", "[::1", "a]b[", "[x]:80", "127.0.0.1:port", "\xff"])
@pytest.mark.parametrize("header", ["Host", "Origin"])
def test_a_host_that_cannot_be_read_is_refused(strict: Server, host: str, header: str) -> None:
    hosts = f"{header}: {'http://' if header == 'Origin' else ''}{host}\r\n"
    hosts += "" if header == "Host" else "Host: 127.0.0.1\r\n"
    with connect(strict) as connection:
        connection.sendall(
            f"GET /v1/jobs HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode("latin1")
        )
        answer = read_all(connection)
    assert answer.split()[1] in (b"403", b"400") or host == "127.0.0.1:port"
    assert b" 500 " not in answer.splitlines()[0]


def test_the_service_went_on(strict: Server) -> None:
    assert strict.client.get("/readyz").text == "ready\n"
    assert metric(strict, "toast_http_connections") < 5
