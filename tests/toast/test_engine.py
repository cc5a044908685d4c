"""The engine as its parent sees it: lines of JSON, exit codes, files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import forms, gemma, mlp
from toast.analysis.limits import ModuleLimits
from toast.pipeline.write_result import write_atomically
from toast.plans.advice_report import advice_sentences
from toast.plans.plan import Plan
from toast.plans.summary import read_summary
from toast.process.limits import EngineLimits
from toast.process.messages import Emitter, one_line
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
    assert left == {"module", "request.json", "plan.json", "summary.json", "sharded.mlir"}


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


def chain(length: int) -> bytes:
    """Functions that each call the next."""
    head = "func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32>"
    lines = [f"{head} {{ %0 = call @f0(%x) : (tensor<8xf32>) -> tensor<8xf32>"]
    lines.append("return %0 : tensor<8xf32> }")
    for number in range(length):
        lines.append(f"func.func private @f{number}(%x: tensor<8xf32>) -> tensor<8xf32> {{")
        following = f"call @f{number + 1}(%x) : (tensor<8xf32>) -> tensor<8xf32>"
        add = "stablehlo.add %x, %x : tensor<8xf32>"
        lines.append(f"%0 = {following if number + 1 < length else add}")
        lines.append("return %0 : tensor<8xf32> }")
    return "\n".join(lines).encode()


def bomb(levels: int) -> bytes:
    """Functions that each call the next one twice."""
    call = "call @f{} : (tensor<8xf32>) -> tensor<8xf32>"
    text = chain(levels).decode()
    for number in range(1, levels):
        once = f"%0 = {call.format(f'{number}(%x)')}"
        text = text.replace(once, f"%t = {call.format(f'{number}(%x)')}\n{once}")
    return text.encode()


def wide(arguments: int) -> bytes:
    """A function of many arguments."""
    given = ", ".join(f"%x{number}: tensor<8xf32>" for number in range(arguments))
    return (
        f"func.func public @main({given}) -> tensor<8xf32> {{\n"
        "%0 = stablehlo.add %x0, %x0 : tensor<8xf32>\nreturn %0 : tensor<8xf32> }"
    ).encode()


SPLAT = b"""func.func public @main(%x: tensor<65536xf32>) -> tensor<65536xf32> {
%0 = stablehlo.constant dense<1.0> : tensor<65536xf32>
%1 = stablehlo.add %x, %0 : tensor<65536xf32>
return %1 : tensor<65536xf32> }"""
LIMITS = EngineLimits(
    module=ModuleLimits(arguments=4, ops=10_000, constant_bytes=100_000), plan_bytes=1 << 20
)


@pytest.mark.parametrize(
    ("module", "code", "text"),
    [
        (chain(3000), "unsupported_module", "more than 128 deep"),
        (bomb(40), "module_too_large", "ops once its calls are inlined, where the limit is 10,000"),
        (wide(5), "module_too_large", "has 5 arguments, where the limit is 4"),
        (
            SPLAT.replace(
                b"dense<1.0>", b'dense<"0x' + bytes(range(256)).hex().encode() * 1024 + b'">'
            ),
            "module_too_large",
            "262,144 bytes of constants",
        ),
    ],
    ids=["chain", "bomb", "wide", "constant"],
)
def test_what_is_too_large_is_refused_in_a_word(
    tmp_path: Path, module: bytes, code: str, text: str
) -> None:
    prepare(tmp_path, module, PlanRequest(mesh="data=2"))
    LIMITS.write(tmp_path)
    error = run(tmp_path).error
    assert error is not None
    assert (error.code, error.status) == (code, 422)
    assert text in error.message
    assert "Traceback" not in error.message
    assert len(error.message) < 300


def test_a_plan_has_a_size_too(tmp_path: Path) -> None:
    prepare(tmp_path, SPLAT, PlanRequest(mesh="data=2", rollouts=4, threads=1))
    EngineLimits(plan_bytes=1000).write(tmp_path)
    outcome = run(tmp_path)
    assert outcome.error is not None
    assert outcome.error.code == "module_too_large"
    assert "1000 B" in outcome.error.message
    assert not outcome.has_plan


def test_the_summary_says_what_the_plan_says(tmp_path: Path) -> None:
    prepare(tmp_path, SPLAT, PlanRequest(mesh="data=2", memory=4096, rollouts=4, threads=1))
    LIMITS.write(tmp_path)  # one number repeated is no large constant
    outcome = run(tmp_path)
    assert outcome.status == "done", outcome
    plan, summary = (
        Plan.from_json(outcome.plan_path.read_bytes()),
        read_summary(outcome.summary_path),
    )
    assert (summary.fits, summary.verdict) == (plan.fits, plan.verdict)
    assert summary.peak_bytes == plan.predicted.peak_bytes
    assert summary.step_seconds == plan.predicted.step_seconds
    assert plan.shortfall is not None
    assert plan.shortfall.advice is not None
    assert summary.advice == advice_sentences(plan.shortfall.advice)


def test_a_summary_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    for data in (b"{}", b"[" * 100_000, b'{"advice": ["' + b"x" * 70_000 + b'"]}', b"\xff"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"summary|validation error"):
            read_summary(path)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/usr/lib/python3/x.py failed\nand more", "x.py failed"),
        (
            'Traceback (most recent call last):\n  File "/a/b.py", line 3\nKeyError: 3',
            "KeyError: 3",
        ),
        ("F0000 /root/xla/shape.cc:12] Check failed", "F0000 shape.cc:12] Check failed"),
        ("", "no reason"),
        ("x" * 9000, "x" * 496 + " ..."),
        ("1/2 and a/b/c stay", "1/2 and a/b/c stay"),
    ],
)
def test_strangers_see_one_line_and_no_folders(said: str, shown: str) -> None:
    assert one_line(said) == shown
