"""Keys, limits and strangers."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.harness import ROOT, Server, check_problem, fake_engine
from toast.service.access.key_lines import BadKeys
from toast.service.access.keyring import KeyFile, Keyring
from toast.service.access.keys import digest_of, hashed_line, is_loopback, keys_of_words
from toast.service.web.assets import ASSETS

KEY = "correct-horse-battery-staple"
FILE_KEY = "another-long-enough-key"
MAX_BODY = 100_000


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that wants a key, takes small bodies and holds two jobs."""
    directory = tmp_path_factory.mktemp("guarded")
    keys = directory / "keys"
    keys.write_text(f"# of the night build\n\n{hashed_line(FILE_KEY)} night build\n")
    settings: dict[str, Any] = {
        "engine_command": fake_engine(directory / "engine"),
        "keys": str(keys), "max_body": MAX_BODY, "max_json": 2000, "max_queued": 1,
        "worker_memory": 200 << 20, "deadline": 1.5, "drain": 1.0,
    }  # fmt: skip
    environment = {"TOAST_API_KEYS": f"{KEY}, sha256:{digest_of('x' * 20)}"}
    with Server(directory / "data", environment=environment, **settings) as server:
        server.client.headers["Authorization"] = f"Bearer {KEY}"
        yield server


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", f"Basic {KEY}", KEY])
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/devices", "/metrics", "/nothing"])
def test_without_a_known_key_nothing_is_answered(
    guarded: Server, header: str | None, path: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    with httpx2.Client(base_url=guarded.url, trust_env=False) as stranger:
        answer = stranger.get(path, headers=headers)
        check_problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/", "/ui/job.html", "/ui/api.js", "/healthz", "/readyz"])
def test_probes_and_the_pages_need_no_key(guarded: Server, path: str) -> None:
    assert httpx2.get(guarded.url + path, trust_env=False).status_code == 200


@pytest.mark.parametrize("key", [KEY, FILE_KEY, "x" * 20])
def test_any_known_key_opens(guarded: Server, key: str) -> None:
    answer = guarded.client.get("/v1/jobs", headers={"Authorization": f"bearer {key}"})
    assert answer.status_code == 200


def test_keys_do_not_share_idempotency_keys(guarded: Server) -> None:
    body = {"module": guarded.upload("success"), "mesh": "data=2"}
    ids = set()
    for key in (KEY, FILE_KEY):
        headers = {"Idempotency-Key": "same", "Authorization": f"Bearer {key}"}
        answer = guarded.client.post("/v1/jobs", json=body, headers=headers)
        ids.add(answer.json()["id"])
        guarded.finished(answer.json()["id"])
    assert len(ids) == 2


def test_no_key_is_in_the_data(guarded: Server) -> None:
    guarded.finished(guarded.submit("success")["id"])
    for path in guarded.data.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


@pytest.mark.parametrize("path", ["/v1/modules", "/v1/plan?mesh=data=2"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_above_the_limit_is_refused(guarded: Server, path: str, chunked: bool) -> None:
    data = b"x" * (MAX_BODY + 1)
    parts = (data[i : i + 9000] for i in range(0, len(data), 9000))
    answer = guarded.client.post(path, content=parts if chunked else data)
    check_problem(answer, 413, "body_too_large", "97.66 KiB")
    assert not list((guarded.data / "artifacts" / "incoming").iterdir())


def test_a_body_at_the_limit_is_taken(guarded: Server) -> None:
    answer = guarded.client.post("/v1/modules", content=b"y" * MAX_BODY)
    assert (answer.status_code, answer.json()["size"]) == (201, MAX_BODY)


def test_a_request_above_its_limit_is_refused(guarded: Server) -> None:
    body = {"module": "x" * 3000}
    check_problem(guarded.client.post("/v1/jobs", json=body), 413, "body_too_large")


def test_a_body_that_breaks_off_leaves_nothing(guarded: Server) -> None:
    address = (guarded.client.base_url.host, guarded.client.base_url.port or 0)
    with socket.create_connection(address) as connection:
        connection.sendall(
            f"POST /v1/modules HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
            "Content-Length: 1000\r\n\r\nhalf".encode()
        )
    assert guarded.client.get("/readyz").status_code == 200
    for _ in range(200):
        if not list((guarded.data / "artifacts" / "incoming").iterdir()):
            return
        guarded.client.get("/healthz")
    raise AssertionError("the half upload is still there")


def test_the_queue_has_an_end(guarded: Server) -> None:
    running = guarded.submit("slow 60")
    guarded.until(running["id"], "running")
    waiting = guarded.submit("success")
    body = {"module": waiting["module"], "mesh": "data=2"}
    answer = guarded.client.post("/v1/jobs", json=body)
    check_problem(answer, 429, "queue_full")
    assert int(answer.headers["retry-after"]) > 0
    guarded.client.post(f"/v1/jobs/{running['id']}/cancel")
    assert guarded.finished(waiting["id"])["state"] == "succeeded"


def test_a_deadline_with_a_plan_is_success(guarded: Server) -> None:
    job = guarded.finished(guarded.submit("slow 30")["id"])
    assert (job["state"], job["summary"]["termination"]) == ("succeeded", "deadline")


def test_a_deadline_without_a_plan_is_failure(guarded: Server) -> None:
    job = guarded.finished(guarded.submit("hang")["id"])
    assert (job["state"], job["error"]["code"]) == ("failed", "engine_timeout")


def test_a_worker_that_takes_too_much_memory_is_stopped(guarded: Server) -> None:
    job = guarded.finished(guarded.submit("grow")["id"])
    assert (job["state"], job["error"]["code"]) == ("failed", "engine_out_of_memory")


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Origin": "http://evil.example"},
     {"Origin": "null"}],
)  # fmt: skip
def test_web_pages_do_not_reach_a_server_without_keys(
    server: Server, headers: dict[str, str]
) -> None:
    check_problem(server.client.get("/v1/jobs", headers=headers), 403, "untrusted_origin")


def test_the_servers_own_page_may_call_it(server: Server) -> None:
    answer = server.client.get("/v1/jobs", headers={"Origin": server.url})
    assert answer.status_code == 200


@pytest.mark.parametrize("name", ["", *sorted(f"ui/{name}" for name in ASSETS)])
def test_pages_load_nothing_from_elsewhere(server: Server, name: str) -> None:
    page = server.client.get(f"/{name}")
    assert page.headers["content-type"].startswith("text/")
    assert "default-src 'none'; script-src 'self';" in page.headers["content-security-policy"]
    assert not re.search(r"https?:|url\(|[\"'`(]//\w", page.text)
    assert "<script>" not in page.text
    assert not re.search(r"\son\w+=", page.text), "handlers in markup would be refused"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_the_network_needs_keys(host: str, tmp_path: Path) -> None:
    done = run_main("--host", host, "--port", "0", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "without API keys" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


def test_a_key_is_hashed_for_the_file() -> None:
    done = run_main("--hash-key", stdin=FILE_KEY + "\n")
    assert (done.returncode, done.stdout.strip()) == (0, hashed_line(FILE_KEY))
    short = run_main("--hash-key", stdin="short\n")
    assert (short.returncode, short.stdout) == (2, "")


def test_plain_keys_in_a_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    for text in (KEY, "", "# nothing\n"):
        file.write_text(text)
        with pytest.raises(BadKeys, match="--hash-key"):
            Keyring(files=(KeyFile(file),))
    with pytest.raises(BadKeys, match="16 characters"):
        keys_of_words("short", "here")
    assert not Keyring(keys_of_words("", "here"))
    holder = Keyring(keys_of_words(KEY, "here")).holder(f"Bearer {KEY}")
    assert holder is not None
    assert holder.name == digest_of(KEY)[:16]


def run_main(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toast.service", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=ROOT, check=False, timeout=30
    )
