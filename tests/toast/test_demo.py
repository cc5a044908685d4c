"""The demo: what it starts it stops, and all of it works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from toast import demo
from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import Form, detect
from toast.client import Client, ServiceUnavailable
from toast.plans.plan import Plan

ROOT = Path(__file__).parents[2]


def start(tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "toast.demo"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive, alive


def started_since(before: set[psutil.Process]) -> list[psutil.Process]:
    """Processes below this one that were not there `before`: other tests may keep some."""
    return [child for child in psutil.Process().children(recursive=True) if child not in before]


def test_the_service_is_there_inside_and_gone_outside(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    with demo.running_service(tmp_path) as url, Client(url) as client:
        assert client.devices()
        children = started_since(before)
        assert children
    wait_until_gone(children)
    with Client(url) as client, pytest.raises(ServiceUnavailable):
        client.devices()


def test_an_error_inside_stops_the_service(tmp_path: Path) -> None:
    children: list[psutil.Process] = []
    before = set(psutil.Process().children(recursive=True))

    def fail_inside() -> None:
        with demo.running_service(tmp_path):
            children.extend(started_since(before))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_inside()
    assert children
    wait_until_gone(children)


def test_a_service_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOAST_API_KEYS", "short")
    with pytest.raises(InvalidRequest, match="did not start"), demo.running_service(tmp_path):
        pass


def test_the_example_is_lowered_in_a_process_of_its_own(tmp_path: Path) -> None:
    assert detect(demo.lower_example(tmp_path / "step.mlir")) is Form.TEXT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if "Service at" in line:
            break
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert children
    wait_until_gone(children)
    assert not list(tmp_path.glob("toast-demo-*"))


def test_the_whole_demo(tmp_path: Path) -> None:
    process = start(tmp_path)
    started = time.monotonic()
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, out + errors
    assert time.monotonic() - started < 240
    for part in (
        "Uploaded as",
        "Layout of the arguments",
        "Predicted cost of one step",
        "data parallel",
        "Communication",
        "Decisions",
        "Time by stage",
        "Equal on 8 virtual devices",
    ):
        assert part in out, out
    plan = Plan.from_json((tmp_path / "demo-out" / "plan.json").read_bytes())
    assert [(axis.name, axis.size) for axis in plan.mesh.axes] == [("data", 2), ("model", 4)]
    assert plan.decisions
