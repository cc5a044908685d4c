"""The runner against engines that misbehave in every way that engines do."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from toast.analysis.errors import EngineCrashed, InvalidModule, ToastError
from toast.process.outcome import EngineFailed, EngineOutOfMemory, EngineTimeout, Outcome
from toast.process.runner import Event, Limits, engine_environment, prepare, run
from toast.request.request import PlanRequest

WRITE_PLAN = """
import json, sys, pathlib
def plan(suffix=".mlir", event="done"):
    d = pathlib.Path(sys.argv[1])
    (d / "plan.json").write_text("{}")
    (d / f"sharded{suffix}").write_text("module")
    print(json.dumps({"event": event, "suffix": suffix}), flush=True)
"""


def fake(directory: Path, body: str) -> list[str]:
    script = directory / "fake_engine.py"
    script.write_text(WRITE_PLAN + body)
    return [sys.executable, str(script), str(directory)]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_success_streams_events_and_finds_files(tmp_path: Path) -> None:
    events: list[Event] = []
    body = 'print(json.dumps({"event": "progress", "fraction": 0.5}), flush=True)\nplan()'
    outcome = run(tmp_path, command=fake(tmp_path, body), on_event=events.append)
    assert outcome.status == "done"
    assert outcome.error is None
    assert outcome.plan_path.read_text() == "{}"
    assert outcome.module_path.name == "sharded.mlir"
    assert events == [{"event": "progress", "fraction": 0.5}]
    outcome.raise_for_error()


def test_user_error_comes_back_as_its_own_class(tmp_path: Path) -> None:
    body = """
print(json.dumps({"event": "error", "code": "invalid_module", "message": "No.", "hint": "Do."}))
sys.exit(2)
"""
    outcome = run(tmp_path, command=fake(tmp_path, body))
    assert outcome.status == "error"
    assert isinstance(outcome.error, InvalidModule)
    assert (outcome.error.message, outcome.error.hint) == ("No.", "Do.")
    with pytest.raises(InvalidModule):
        outcome.raise_for_error()


def test_abort_reports_the_failed_check_not_the_stack(tmp_path: Path) -> None:
    body = """
import os
print("F0000 00:00:00 foo.cc:12] Check failed: a == b (1 vs. 2)", file=sys.stderr)
print("\\n".join(f"@ frame {i} " + "x" * 60 for i in range(200)), file=sys.stderr, flush=True)
os.abort()
"""
    outcome = run(tmp_path, command=fake(tmp_path, body))
    assert outcome.status == "crashed"
    assert isinstance(outcome.error, EngineCrashed)
    assert "Check failed: a == b (1 vs. 2)" in outcome.error.message
    assert len(outcome.stderr) <= 4096
    assert "frame 199" in outcome.stderr
    assert not outcome.has_plan


def test_killed_from_outside_is_not_the_modules_fault(tmp_path: Path) -> None:
    body = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    outcome = run(tmp_path, command=fake(tmp_path, body))
    assert outcome.status == "failed"
    assert isinstance(outcome.error, EngineFailed)
    assert "SIGKILL" in outcome.error.message


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        'print(json.dumps({"event": "done", "suffix": ".mlir"}))',
        'print(json.dumps({"event": "done", "suffix": "/../../etc/passwd"}))',
        "sys.exit(7)",
        "raise RuntimeError('boom')",
    ],
)
def test_an_end_without_files_is_a_failure(tmp_path: Path, body: str) -> None:
    outcome = run(tmp_path, command=fake(tmp_path, body))
    assert outcome.status == "failed"
    assert isinstance(outcome.error, EngineFailed)
    with pytest.raises(ValueError, match="without a plan"):
        _ = outcome.module_path


def test_garbage_on_stdout_is_skipped(tmp_path: Path) -> None:
    body = """
sys.stdout.buffer.write(b"hello\\n[1, 2]\\n\\xff\\xfe\\n{broken\\n\\n")
print(json.dumps({"event": "progress", "fraction": 1}))
plan(".mlirbc")
"""
    events: list[Event] = []
    outcome = run(tmp_path, command=fake(tmp_path, body), on_event=events.append)
    assert outcome.status == "done"
    assert outcome.suffix == ".mlirbc"
    assert events == [{"event": "progress", "fraction": 1}]


STOPPED = """
for stage in STAGES:
    print(json.dumps({"event": "progress", "stage": stage}), flush=True)
assert "cancel" in sys.stdin.readline()
time.sleep(0.5)
plan()
"""


def cancelled_in(stages: list[str], tmp_path: Path) -> Outcome:
    """The engine is cancelled in the last of these stages and writes a plan after half a second."""
    seen: list[Event] = []
    body = f"import time; STAGES = {stages}{STOPPED}"
    return run(
        tmp_path,
        command=fake(tmp_path, body),
        on_event=seen.append,
        cancelled=lambda: len(seen) == len(stages),
    )


@pytest.mark.parametrize("stages", [["load", "search"], ["search", "write"]])
def test_cancel_asks_and_the_best_plan_comes_back(stages: list[str], tmp_path: Path) -> None:
    outcome = cancelled_in(stages, tmp_path)
    assert outcome.status == "cancelled"
    assert outcome.error is None
    assert outcome.has_plan


@pytest.mark.parametrize("stages", [[], ["kernels"], ["kernels", "load"]])
def test_cancelled_before_the_search_it_ends_at_once(stages: list[str], tmp_path: Path) -> None:
    outcome = cancelled_in(stages, tmp_path)
    assert outcome.status == "cancelled"
    assert isinstance(outcome.error, EngineTimeout)
    assert not outcome.has_plan


def test_deadline_asks_first(tmp_path: Path) -> None:
    body = "sys.stdin.readline(); plan()"
    outcome = run(tmp_path, command=fake(tmp_path, body), deadline_s=0.3)
    assert outcome.status == "deadline"
    assert outcome.has_plan


HANG = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid = os.fork()
# One write each, so that the lines of two processes do not mix.
os.write(1, json.dumps({"event": "progress", "pid": os.getpid()}).encode() + b"\\n")
time.sleep(100)
"""


def test_a_hang_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    events: list[Event] = []
    limits = Limits(ask_grace_s=0.2, term_grace_s=0.2)
    started = time.monotonic()
    outcome = run(
        tmp_path,
        command=fake(tmp_path, HANG),
        on_event=events.append,
        cancelled=lambda: len(events) == 2,
        limits=limits,
    )
    assert time.monotonic() - started < 20
    assert outcome.status == "cancelled"
    assert isinstance(outcome.error, EngineTimeout)
    assert not outcome.has_plan
    pids = [event["pid"] for event in events]
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while not all(map(is_gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(map(is_gone, pids))


def test_memory_is_watched_from_outside(tmp_path: Path) -> None:
    body = "import time; block = bytearray(200 << 20); time.sleep(100)"
    outcome = run(tmp_path, command=fake(tmp_path, body), memory_bytes=100 << 20)
    assert outcome.status == "out_of_memory"
    assert isinstance(outcome.error, EngineOutOfMemory)
    assert "limit is 100 MiB" in outcome.error.message
    assert outcome.peak_rss_bytes > 100 << 20


def test_memory_is_watched_where_nobody_set_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=100 << 20))
    body = "import time; block = bytearray(200 << 20); time.sleep(100)"
    outcome = run(tmp_path, command=fake(tmp_path, body))
    assert outcome.status == "out_of_memory"
    assert isinstance(outcome.error, EngineOutOfMemory)
    assert "limit is 80 MiB" in outcome.error.message


def test_a_callback_that_raises_leaves_no_process(tmp_path: Path) -> None:
    pids: list[int] = []

    def on_event(event: Event) -> None:
        pids.append(event["pid"])
        raise KeyboardInterrupt

    body = HANG.replace("pid = os.fork()\n", "")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, command=fake(tmp_path, body), on_event=on_event)
    assert all(map(is_gone, pids))


def test_prepare_writes_what_the_engine_reads(tmp_path: Path) -> None:
    request = PlanRequest(mesh="data=2", seed=7)
    prepare(tmp_path / "job", b"\x00module", request)
    assert (tmp_path / "job" / "module").read_bytes() == b"\x00module"
    text = (tmp_path / "job" / "request.json").read_text()
    assert PlanRequest.model_validate_json(text) == request


def test_the_real_engine_refuses_a_bad_request(tmp_path: Path) -> None:
    (tmp_path / "module").write_bytes(b"")
    (tmp_path / "request.json").write_text('{"mesh": 1, "colour": "blue"}')
    outcome: Outcome = run(tmp_path)
    assert outcome.status == "error"
    assert isinstance(outcome.error, ToastError)
    assert outcome.error.code == "invalid_request"


def test_the_engine_takes_no_accelerator() -> None:
    assert engine_environment()["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), 6)",
        'print(json.dumps({"event": "error", "code": "engine_failed"}))\nsys.exit(1)',
    ],
)
def test_a_plan_that_is_written_outlives_what_comes_after_it(tmp_path: Path, end: str) -> None:
    body = f"import os\nplan(event='written')\n{end}"
    events: list[Event] = []
    outcome = run(tmp_path, command=fake(tmp_path, body), on_event=events.append)
    assert outcome.status == "done"
    assert outcome.error is None
    assert outcome.plan_path.read_text() == "{}"
    assert events == []
