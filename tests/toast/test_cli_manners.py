"""What all commands do alike: the version, completion, quiet mode, JSON and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from examples import forms, mlp
from tests.toast.terminal import toast
from toast.cli import app, options
from toast.cli.terminal import best_so_far
from toast.plans.explanation import Explanation
from toast.plans.plan import Plan
from toast.process.runner import package_environment
from toast.search.planners import PLANNERS

ROOT = Path(__file__).parents[2]
STEP = forms.serialize(mlp.make_step(mlp.PRESETS["small"]), "bytecode")
FLAGS = ("--device", "cpu", "--mesh", "data=2", "--rollouts", "20", "--threads", "1")


def completed(words: str, number: int) -> list[str]:
    """What the shell is offered in place of a word, by the script that it runs."""
    asked = {"_TOAST_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    done = subprocess.run(
        [sys.executable, "-m", "toast"],
        capture_output=True,
        text=True,
        check=True,
        env=package_environment() | asked,
    )
    return done.stdout.split()


def test_the_version_is_that_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert toast("--version").stdout == f"toast {declared}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_completes(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "toast"],
        capture_output=True,
        text=True,
        check=True,
        env=package_environment() | {"_TOAST_COMPLETE": f"source_{shell}"},
    )
    assert f"_TOAST_COMPLETE=complete_{shell}" in done.stdout


def test_show_completion_prints_the_script_of_the_shell_that_asks() -> None:
    done = subprocess.run(
        ["/bin/bash", "-c", f"{sys.executable} -m toast --show-completion; true"],
        capture_output=True,
        text=True,
        check=True,
        env=package_environment(),
    )
    assert "complete -o default -F _toast_completion toast" in done.stdout


def test_commands_flags_and_chips_are_completed() -> None:
    assert completed("toast insp", 1) == ["inspect"]
    assert "--rollouts" in completed("toast plan step.mlir --ro", 3)
    assert completed("toast plan step.mlir --device h2", 4) == ["h200"]


def test_all_planners_are_completed() -> None:
    assert set(options.PLANNERS) == set(PLANNERS)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what a quiet `toast plan` wrote to `out`."""
    folder = tmp_path_factory.mktemp("planned")
    (folder / "step").write_bytes(STEP)
    done = toast("plan", "step", *FLAGS, "-q", "-o", "out", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")
    return folder


def test_a_quiet_plan_is_written(written: Path) -> None:
    assert Plan.from_json((written / "out" / "plan.json").read_bytes()).device == "cpu"
    assert invoked("explain", str(written / "out"), "-q") == ""
    parts = json.loads(invoked("explain", str(written / "out"), "-q", "--json"))
    assert Explanation.model_validate(parts["explanation"]).fusions


def test_a_choice_as_json_is_what_is_written(written: Path) -> None:
    done = toast("choose", "out", "1", "--json", cwd=written)
    assert done.returncode == 0, done.stderr
    kept = (written / "out-1" / "plan.json").read_bytes()
    assert Plan.from_json(done.stdout) == Plan.from_json(kept)


def test_a_quiet_refusal_is_still_heard(tmp_path: Path) -> None:
    done = toast("plan", tmp_path / "none", "--mesh", "data=2", "-q")
    assert done.returncode == 2
    assert "cannot be read" in done.stderr
    assert done.stdout == ""


def invoked(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_chips_and_passes_as_json_and_as_names() -> None:
    for command, known in (("devices", "tpu-v5e"), ("passes", "cse")):
        rows = json.loads(invoked(command, "--json"))
        names = [row["name"] for row in rows]
        assert known in names
        assert invoked(command, "-q").split() == names


def test_inspect_as_json_beside_a_page_prints_json_alone(tmp_path: Path) -> None:
    module, page = tmp_path / "step", tmp_path / "page.html"
    module.write_bytes(STEP)
    found = json.loads(invoked("inspect", str(module), "--json", "--html", str(page)))
    assert found["colours"]
    assert page.is_file()
    assert invoked("inspect", str(module), "-q", "--html", str(page)) == f"{page}\n"
    assert invoked("inspect", str(module), "-q") == ""


def test_quiet_kernels_say_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toast.search import kernel_cache

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "compile_all", lambda on_share: on_share(0.5))
    assert invoked("warm", "-q") == f"{tmp_path / 'toast'}\n"


def test_help_says_the_same_for_every_json_and_quiet_flag() -> None:
    for command in ("plan", "submit", "choose", "explain", "inspect", "devices", "calibrate"):
        text = " ".join(invoked(command, "--help").split())
        assert re.search(r"--json +Print one JSON document", text), command
        assert re.search(r"-q, --quiet", text), command


def test_the_best_so_far_is_told_in_seconds_and_bytes() -> None:
    event = {"best_cost": 0.25, "best_seconds": 0.0123, "best_bytes": 3 << 30, "evaluations": 9}
    assert best_so_far(event) == "best 12.3 ms a step, 3.00 GiB per device"
    assert best_so_far({"stage": "load", "best_cost": 1.0, "best_seconds": 0.0}) == ""
