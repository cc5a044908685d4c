"""A real S3-compatible server for the tests: moto's, in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

MISSING = "S3 is not tested: pip install 'toast-planner[s3,dev]' has s3fs and moto's server"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}
_START_SECONDS = 60.0


def missing() -> str | None:
    """Why there is no such server, None where there is one."""
    names = ("s3fs", "moto", "flask", "flask_cors")
    found = all(importlib.util.find_spec(name) is not None for name in names)
    return None if found else MISSING


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """The address of a running server with an empty bucket `toast`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **CREDENTIALS},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _make_bucket(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _make_bucket(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "moto's server ended"
        request = urllib.request.Request(f"{url}/toast", method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError("moto's server did not start")
