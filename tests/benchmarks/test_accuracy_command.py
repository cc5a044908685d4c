"""The one command: its environment is made once, and its four steps run in it in order."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import command as shared
from benchmarks.accuracy import __main__ as program
from benchmarks.accuracy import environment, tables
from benchmarks.accuracy.records import write_records
from tests.benchmarks.accuracy_samples import record
from toast.analysis.errors import InvalidRequest


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been run."""
    seen: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        seen.append(command)
        if "venv" in command:
            (Path(command[-1]) / "bin").mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def test_an_environment_is_made_once(commands: list[list[str]], tmp_path: Path) -> None:
    place = tmp_path / "env"
    assert environment.ensure(place) == place / "bin" / "python"
    made, installed = commands
    assert made[1:] == ["-m", "venv", str(place)]
    assert installed[-4:] == ["-c", "constraints.txt", "-e", ".[dev,aot,aot-cuda]"]
    environment.ensure(place)
    assert len(commands) == 2


def test_an_environment_is_made_anew_when_what_it_holds_has_changed(
    commands: list[list[str]], tmp_path: Path
) -> None:
    place = tmp_path / "env"
    environment.ensure(place)
    (place / ".installed").write_text("other pins")
    (place / "leftover").touch()
    environment.ensure(place)
    assert len(commands) == 4
    assert not (place / "leftover").exists()


def test_what_pip_left_half_done_is_done_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(command: list[str], **options: Any) -> None:
        (tmp_path / "env").mkdir(exist_ok=True)
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(subprocess.CalledProcessError):
        environment.ensure(tmp_path / "env")
    assert not (tmp_path / "env" / ".installed").exists()


def test_all_is_every_step_in_order_with_the_same_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[list[str]] = []

    def rerun(arguments: list[str], program: str) -> int:
        assert program == "benchmarks.accuracy"
        steps.append(arguments)
        return 3 if arguments[0] == "report" else 0

    monkeypatch.setattr(shared, "rerun", rerun)
    assert program.main(["all", "--limit", "2"]) == 3
    assert steps == [[name, "--limit", "2"] for name in ("run", "reprice", "report")]


def test_a_step_runs_in_the_environment(commands: list[list[str]], tmp_path: Path) -> None:
    assert environment.rerun(["report"], tmp_path / "env") == 0
    python = str(tmp_path / "env" / "bin" / "python")
    assert commands[-1] == [python, "-m", "benchmarks.accuracy", "report"]


def test_unknown_models_and_targets_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["run", "--models", "gat,nonsense", "--targets", "b200:8"]) == 2
    assert "unknown: b200:8, nonsense; known: " in capsys.readouterr().err


def test_report_and_write_keep_the_held_out_models_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path / "a.jsonl", [record("gat data=8 mcts tpu-v5e:2x4")])
    write_records(tmp_path / "heldout-a.jsonl", [record("t5_cut data=8 mcts tpu-v5e:2x4")])
    assert program.main(["report", "--data", str(tmp_path)]) == 0
    ours, _, theirs = capsys.readouterr().out.partition("# Held-out models")
    assert ("| gat |" in ours, "t5_cut" in ours) == (True, False)
    assert ("| gat |" in theirs, "t5_cut" in theirs) == (False, True)


def test_what_a_command_cannot_do_is_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise InvalidRequest("No compiler.", "Install it.")

    monkeypatch.setattr(tables, "report", fail)
    assert program.main(["report"]) == 2
    assert capsys.readouterr().err == "No compiler. Install it.\n"
