"""What the image promises, as far as that can be read without building it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.ground.repository import ROOMS, ROOT
from tools.containers import ImageFailed
from tools.image_test import (
    MODULE,
    PLAN_PATH,
    check_compilers,
    check_service,
    wait_until_healthy,
)

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of that name, continued lines joined."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} +(.+)$", joined, re.MULTILINE)


def test_the_image_is_slim_and_serves_as_an_ordinary_user() -> None:
    assert {words.split()[0] for words in instructions("FROM")} == {
        "docker.io/library/python:3.11-slim"
    }
    assert instructions("USER") == ["toast"]
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("RUN python -m toast.search.kernel_cache")


def test_the_image_serves_what_it_exposes_and_keeps_what_it_stores() -> None:
    command = json.loads(instructions("CMD")[-1])
    assert command[:2] == ["toast", "serve"]
    assert command[command.index("--port") + 1] == instructions("EXPOSE")[0]
    assert command[command.index("--data") + 1] == instructions("VOLUME")[0]
    assert f"127.0.0.1:{instructions('EXPOSE')[0]}/healthz" in DOCKERFILE


def test_the_builder_is_given_every_room() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for room in ROOMS:
        assert f"{room} {room}" in instructions("COPY")
        assert f"!{room}" in ignored


class _Service:
    """A stand-in that answers as it is told, and the requests that it saw."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.seen: list[tuple[str, str, str | None]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                key = self.headers.get("Authorization")
                service.seen.append((self.command, self.path, key))
                status, body = service.answers.pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def service() -> Iterator[_Service]:
    stand_in = _Service()
    thread = threading.Thread(target=stand_in.server.serve_forever)
    thread.start()
    yield stand_in
    stand_in.server.shutdown()
    thread.join()
    stand_in.server.server_close()


SHARDED = b'sdy.mesh @mesh = <["data"=2, "model"=4]> sdy.sharding'
REFUSED = (422, b'{"code": "invalid_module"}')


def test_a_service_that_keeps_its_promises_passes(service: _Service) -> None:
    service.answers = [(401, b""), (200, SHARDED), REFUSED]
    check_service(service.url, "key")
    methods, paths, keys = zip(*service.seen, strict=True)
    assert methods == ("POST", "POST", "POST")
    assert paths[:2] == (PLAN_PATH, PLAN_PATH)
    assert keys == (None, "Bearer key", "Bearer key")


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ([(200, SHARDED)], "without a key"),
        ([(401, b""), (500, b"broken")], "answered 500: broken"),
        ([(401, b""), (200, MODULE)], "has no sdy.mesh"),
        ([(401, b""), (200, SHARDED), (500, b"{}")], "no module were answered with 500"),
    ],
)
def test_each_broken_promise_is_named(
    service: _Service, answers: list[tuple[int, bytes]], complaint: str
) -> None:
    service.answers = answers
    with pytest.raises(ImageFailed, match=complaint):
        check_service(service.url, "key")


def test_a_plan_that_its_compiler_takes_passes(service: _Service) -> None:
    service.answers = [(200, _confirmed(fits=True, compiled={"memory_bytes": 1}))]
    check_compilers(service.url, "key")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((422, b"no compiler"), "answered with 422: no compiler"),
        ((200, b'{"confirmed": {"fits": null, "plans": []}}'), "confirmed no plan"),
        ((200, b'{"confirmed": {"fits": true, "plans": []}}'), "confirmed no plan"),
    ],
)
def test_a_compiler_that_takes_nothing_is_named(
    service: _Service, answer: tuple[int, bytes], complaint: str
) -> None:
    service.answers = [answer]
    with pytest.raises(ImageFailed, match=complaint):
        check_compilers(service.url, "key")


def _confirmed(*, fits: bool, compiled: dict[str, int] | None) -> bytes:
    plans = [{"chosen": True, "compiled": compiled}]
    return json.dumps({"confirmed": {"fits": fits, "plans": plans}}).encode()


def test_health_is_waited_for(service: _Service) -> None:
    service.answers = [(503, b""), (200, b"")]
    wait_until_healthy(service.url)
    assert len(service.seen) == 2


def test_waiting_for_health_ends() -> None:
    with pytest.raises(ImageFailed, match="did not answer"):
        wait_until_healthy("http://127.0.0.1:9", seconds=0.3)
