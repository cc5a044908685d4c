"""What the process of a job cannot do: reach a network, or others' processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.modules import text
from tests.service.harness import ROOT, Server, as_object
from tests.service.machine import missing
from toast.analysis.parent_death import named_parent
from toast.process.child import Child
from toast.process.confine import WITHOUT_CALLS, WITHOUT_NETWORK
from toast.process.runner import Limits, engine_command, engine_environment, follow

TRY = """
import ctypes, json, os, socket, sys, threading
from toast.process.confine import confine
from toast.analysis.parent_death import end_with_parent
only = sys.argv[2]
if only:
    from toast.process import confine as module
    other = {"leave_network": "filter_calls", "filter_calls": "leave_network"}[only]
    setattr(module, other, lambda **_: False)
left = confine()
uid = os.getuid()
end_with_parent()
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death), 0, 0, 0)
def outcome(act):
    try:
        act()
    except OSError as error:
        return error.errno
    return 0
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
found = {
    "left": [left.network, left.namespace, left.filtered],
    "tcp": outcome(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)),
    "ptrace": outcome(lambda: call(libc.ptrace, 0x4206, os.getppid(), 0, 0)),
    "memory": outcome(lambda: open(f"/proc/{os.getppid()}/mem", "rb")),
    "unshare": outcome(lambda: call(libc.unshare, 0x10000000)),
    "pair": outcome(socket.socketpair),
    "uid": uid,
    "death": death.value,
}
thread = threading.Thread(target=found.setdefault, args=("thread", os.system("true")))
thread.start(); thread.join()
print(json.dumps(found))
"""


def attempt(without: dict[str, str], only: str = "") -> dict[str, Any]:
    """What a process that was confined so finds when it tries this and that."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-c", TRY, port, only],
            env=engine_environment() | named_parent() | without,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    assert (found["pair"], found["thread"], found["uid"]) == (0, 0, os.getuid())
    assert found["death"] == signal.SIGKILL  # it ends with its parent
    return found


NAMESPACE = pytest.param(
    "leave_network",
    marks=pytest.mark.skipif(missing("namespace") is not None, reason=str(missing("namespace"))),
)
FILTER = pytest.param(
    "filter_calls",
    marks=pytest.mark.skipif(missing("filtered") is not None, reason=str(missing("filtered"))),
)


def test_a_process_that_is_told_nothing_reaches_the_network() -> None:
    """Else the tests below would prove nothing."""
    assert (attempt({})["tcp"], attempt(WITHOUT_CALLS)["tcp"]) == (0, 0)


@pytest.mark.parametrize("way", [NAMESPACE, FILTER])
def test_each_way_alone_takes_the_network(way: str) -> None:
    found = attempt(WITHOUT_NETWORK, only=way)
    assert found["tcp"] != 0
    assert found["left"] == [False, way == "leave_network", way == "filter_calls"]


@pytest.mark.parametrize("way", [FILTER])
@pytest.mark.parametrize("without", [WITHOUT_CALLS, WITHOUT_NETWORK])
def test_other_processes_are_out_of_reach(without: dict[str, str], way: str) -> None:
    found = attempt(without, only=way)
    assert (found["ptrace"], found["unshare"]) == (1, 1)


@pytest.mark.parametrize("_way", [NAMESPACE])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into any other process")
def test_in_a_namespace_the_memory_of_the_server_is_closed(_way: str) -> None:
    assert attempt({})["memory"] == 0
    assert attempt(WITHOUT_NETWORK, only="leave_network")["memory"] == 13


def engine(tmp_path: Path) -> Child:
    (tmp_path / "module").write_bytes(text("mlp"))
    (tmp_path / "request.json").write_text(
        '{"mesh": "data=2,model=2", "rollouts": 20, "threads": 1, "planner": "greedy"}'
    )
    return Child(engine_command("--spare"), engine_environment() | WITHOUT_NETWORK)


@pytest.mark.parametrize("_way", [NAMESPACE])
def test_an_engine_plans_without_network(tmp_path: Path, _way: str) -> None:
    child = engine(tmp_path)
    try:
        assert child.events.get(timeout=100) == {"event": "ready"}
        ours, its = (Path(f"/proc/{pid}/ns/net").readlink() for pid in ("self", child.pid))
        assert ours != its
        assert child.begin(tmp_path)
        outcome = follow(child, tmp_path, Limits(stall_s=30.0))
        assert (outcome.status, outcome.has_plan) == ("done", True), outcome.stderr
        assert outcome.peak_rss_bytes > 1 << 20  # the parent still sees what it uses
    finally:
        child.kill()


def real(data: Path, **settings: Any) -> Server:
    return Server(data, spares=1, drain=1.0, **settings)


def test_the_service_says_what_its_workers_have_left(tmp_path: Path) -> None:
    with real(tmp_path / "data") as server:
        left = as_object(server.client.get("/version"))["workers"]
        assert left == {
            "network": None not in (missing("namespace"), missing("filtered")),
            "namespace": missing("namespace") is None,
            "filtered": missing("filtered") is None,
        }


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_engine_without_network_ends_with_a_killed_server(tmp_path: Path) -> None:
    with real(tmp_path / "data") as server:
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        wait_until(lambda: bool(process.children()))
        (spare,) = process.children()
        status = Path(f"/proc/{spare.pid}/status")
        wait_until(lambda: "NoNewPrivs:\t1" in status.read_text())
        server.kill()
        assert psutil.wait_procs([spare], timeout=10)[1] == []
