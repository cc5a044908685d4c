"""The engine as its parent sees it: lines of JSON, exit codes, files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import forms, gemma, mlp
from toast.pipeline.engine import write_atomically
from toast.plans.plan import Plan
from toast.process.messages import Emitter
from toast.process.runner import Event, engine_command, engine_environment, prepare, run
from toast.request.request import PlanRequest

TEXT = forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "text")


class Lines:
    """Enough of a stream to see what is written."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def write(self, text: str) -> int:
        self.lines.append(json.loads(text))
        return len(text)

    def flush(self) -> None:
        pass


def engine(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        engine_command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        env=engine_environment(),
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


def test_a_job_from_request_to_files(tmp_path: Path) -> None:
    prepare(tmp_path, TEXT, PlanRequest(mesh="data=2,model=2", rollouts=20, threads=1))
    events: list[Event] = []
    outcome = run(tmp_path, on_event=events.append)
    assert outcome.status == "done", outcome
    plan = Plan.from_json(outcome.plan_path.read_bytes())
    assert plan.search.rollouts <= 20
    assert {event["event"] for event in events} == {"progress"}
    assert {"stage", "fraction", "best_cost"} <= set(events[0])
    assert events[-1]["best_seconds"] == pytest.approx(plan.predicted.step_seconds)
    assert events[-1]["best_bytes"] == plan.predicted.peak_bytes
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"module", "request.json", "plan.json", "sharded.mlir"}


def test_asked_to_stop_it_writes_its_best_plan(tmp_path: Path) -> None:
    module = forms.serialize(gemma.make_step(gemma.PRESETS["tiny"]), "bytecode")
    prepare(tmp_path, module, PlanRequest(mesh="data=2,model=4", rollouts=100_000_000))
    stages: list[str] = []

    def cancelled() -> bool:
        return "search" in stages

    outcome = run(tmp_path, on_event=lambda e: stages.append(e["stage"]), cancelled=cancelled)
    assert outcome.has_plan, outcome
    assert outcome.status in ("cancelled", "done")


def test_user_errors_are_one_event_and_exit_code_2(tmp_path: Path) -> None:
    prepare(tmp_path, b"poem", PlanRequest(mesh="data=2"))
    done = engine(str(tmp_path))
    assert done.returncode == 2
    *progress, error = (json.loads(line) for line in done.stdout.splitlines())
    assert (error["event"], error["code"]) == ("error", "invalid_module")
    assert {event["event"] for event in progress} <= {"progress", "alive"}


def test_inspect_is_one_event(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(TEXT)
    done = engine("--inspect", str(tmp_path / "m"))
    first, last = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["event"], last) == ("inspection", {"event": "done"})
    assert {"colours", "conflicts", "sets", "groups", "no_rule"} <= set(first["inspection"])


def test_bugs_are_not_reported_as_user_errors(tmp_path: Path) -> None:
    done = engine(str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert json.loads(done.stdout)["code"] == "engine_failed"
    assert "Traceback" in done.stderr


def test_without_arguments_it_explains_itself() -> None:
    done = engine()
    assert (done.returncode, done.stdout) == (2, "")
    assert "--inspect FILE" in done.stderr


def test_events_are_json_whatever_the_numbers() -> None:
    from toast.search.progress import Progress

    stream = Lines()
    emitter = Emitter(stream)  # type: ignore[arg-type]
    progress = Progress(
        stage="search",
        fraction=0.5,
        rounds=1,
        rollouts=2,
        evaluations=3,
        best_cost=float("inf"),
        best_bytes=4,
        seconds=0.1,
    )
    for _ in range(100):
        emitter.progress(progress)
    assert len(stream.lines) == 1, "progress is at most ten events a second"
    assert stream.lines[0]["best_cost"] is None


def test_what_c_plus_plus_prints_goes_to_stderr() -> None:
    code = """
import os, sys
from toast.process.messages import Emitter, take_stdout
emitter = Emitter(take_stdout())
os.write(1, b"printed by XLA\\n")
print("printed by Python", flush=True)
emitter.emit("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=engine_environment(),
    )  # fmt: skip
    assert done.stdout == '{"event": "done"}\n'
    assert done.stderr.splitlines() == ["printed by XLA", "printed by Python"]


def test_files_appear_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("flag", ["-h", "--inspect"])
def test_one_argument_is_a_directory(tmp_path: Path, flag: str) -> None:
    assert engine(flag).returncode in (1, 2)
