"""Bytes that nobody meant: whatever is sent, the server answers and goes on."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from examples import forms, mlp
from tests.service.harness import Server, fake_engine
from tests.service.raw_http import read_all

SEEDS = [
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"POST /v1/modules HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 7\r\n\r\nsuccess",
    (
        b"POST /v1/modules HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"7\r\nsuccess\r\n0\r\n\r\n"
    ),
    (
        b"POST /v1/plan?mesh=data=2&pins=**/x=data HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nerror"
    ),
    (
        b"POST /v1/modules HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: 20\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00"
        b"\x00\x00\x00\x00\x00"
    ),
    b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 33\r\n\r\n{"module":"' + b"0" * 4 + b'","mesh":"data=2"}',
    b"GET /v1/jobs/x/events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: 3\r\n\r\n",
    (
        b"GET /v1/jobs?limit=1&cursor=5&state=queued HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b'If-None-Match: "a"\r\nX-Request-ID: a\r\ntraceparent: 00-1-1-01\r\n\r\n'
    ),
]
WORDS = [
    b"\r\n", b"\n", b"\0", b"\xff\xfe", b"%00", b"%", b"..", b"//", b"?", b"&", b"=", b":", b" ",
    b"-1", b"99999999999999999999", b"1e309", b"NaN", b"[", b"]", b"{", b'"', b"\\u0000",
    b"chunked", b"gzip", b"Content-Length: 4\r\n", b"Host: [\r\n", b"HTTP/1.0", b"HTTP/2.0",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Content-Encoding: zstd\r\n",
    b"Authorization: Bearer\r\n", b"\xe2\x80\xae", b"A" * 300,
]  # fmt: skip


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """A seed with some bytes changed, cut out, repeated or put in."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.randint(0, 12))
        change = chance.randrange(5)
        if change == 0:
            data[at:at] = chance.choice(WORDS)
        elif change == 1:
            data[at:end] = b""
        elif change == 2:
            data[at:end] = chance.choice(WORDS)
        elif change == 3 and at < len(data):
            data[at] = chance.randrange(256)
        else:
            data[at:at] = data[at:end] * chance.randint(1, 40)
    return bytes(data)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("fuzzed")
    engine = fake_engine(directory / "engine")
    with Server(
        directory / "data", engine_command=engine, drain=1.0, header_timeout=1.0, deadline=2.0
    ) as running:
        yield running


def send(server: Server, data: bytes) -> bytes:
    """What the server says within a moment."""
    assert server.client.base_url.port is not None
    with socket.create_connection(("127.0.0.1", server.client.base_url.port)) as connection:
        connection.settimeout(3)
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            return read_all(connection)
    return b""


def harmless(server: Server, make: Callable[[random.Random], bytes], seconds: float) -> int:
    """Send what `make` makes for so long; how much that was."""
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    for number in range(20):  # what is loaded or cached once is no leak
        send(server, make(random.Random(number)))
    descriptors, memory = process.num_fds(), process.memory_info().rss
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end or count < 50:
        data = make(random.Random(1000 + count))
        answer = send(server, data)
        head = answer.split(b"\r\n", 1)[0]
        assert b" 5" not in head[8:11] or b" 503 " in head, (data, answer[:500])
        assert b"Traceback" not in answer, data
        assert str(Path(__file__).parents[2]).encode() not in answer, data
        count += 1
    assert server.client.get("/readyz").text == "ready\n"
    time.sleep(2.0)
    assert process.num_fds() <= descriptors + 10
    assert process.memory_info().rss <= memory + (64 << 20)
    failures = [
        line
        for line in server.client.get("/metrics").text.splitlines()
        if line.startswith("toast_http_requests_total") and 'status="500"' in line
    ]
    assert failures == []
    return count


def any_request(chance: random.Random) -> bytes:
    return mutated(chance.choice(SEEDS), chance)


def test_no_request_harms_the_server(fuzzed: Server) -> None:
    assert harmless(fuzzed, any_request, 5.0) >= 50


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_no_request_harms_the_server_in_minutes(fuzzed: Server) -> None:
    assert harmless(fuzzed, any_request, 600.0) > 1000


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("form", ["text", "bytecode", "portable", "export"])
def test_no_module_harms_the_server(tmp_path: Path, form: str) -> None:
    """Modules with bytes changed: each ends in a plan or in the caller's own error."""
    seed = forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), form)
    query = "mesh=data=2&rollouts=4&threads=1&device=cpu&advice=false"
    with Server(tmp_path / "data", workers=1, deadline=60.0) as server:
        for number in range(40):
            data = mutated(seed, random.Random(number))
            answer = server.client.post(f"/v1/plan?{query}", content=data, timeout=90)
            assert answer.status_code < 500, (number, answer.text)
            assert "Traceback" not in answer.text
        assert server.client.get("/readyz").text == "ready\n"
