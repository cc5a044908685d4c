"""The GitHub Action and the GitLab component: their steps are run, on a copy of the sources."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ground.repository import ROOMS, ROOT
from tests.service.harness import Server, fake_engine
from tests.toast.ci.budgets import PLAIN

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
SPEC, JOBS = yaml.safe_load_all((ROOT / "templates/toast-ci.yml").read_text())
EXPRESSION = re.compile(r"\$\{\{ *inputs\.([\w-]+) *\}\}")
SLOT = re.compile(r"\$\[\[ *inputs\.([\w-]+) *\]\]")
OVER = PLAIN + "limits = { memory = '1B' }\n"
"""Nothing fits into that."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`python` of an environment that finds all that is installed here, but not toast."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    places = [Path(place) for place in site.getsitepackages()]
    for entry in (path for place in places if place.is_dir() for path in place.iterdir()):
        if "toast" not in entry.name and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    return folder / "bin"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service whose engine plans at once what begins with `success`."""
    folder = tmp_path_factory.mktemp("service")
    with Server(folder / "data", engine_command=fake_engine(folder / "engine")) as server:
        yield server.url


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `toast` that runs these sources."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "toast"
    code = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -P -m toast "$@"\n'
    program.write_text(code)
    program.chmod(0o755)
    return folder


def budget_file(folder: Path, content: str = PLAIN) -> None:
    """A budget, and a module for the fake engine."""
    (folder / "mlp.mlir").write_text("success")
    (folder / "toast.budget.toml").write_text(content)


def shell(script: str, folder: Path, programs: Path, **variables: str) -> subprocess.Popen[str]:
    """A script as a runner starts it: in bash, which stops at the first failure."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GITHUB_", "TOAST_", "PYTHONPATH"))
    }
    search = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**inherited, "PATH": search, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=200)
    return process.returncode, said


def step(name: str) -> dict[str, Any]:
    (found,) = [one for one in ACTION["runs"]["steps"] if one["name"] == name]
    return dict(found)


def run_action(folder: Path, programs: Path, **inputs: str) -> tuple[int, str, dict[str, str]]:
    """The code, the words and the outputs of the step that plans."""
    given = {name: row.get("default", "") for name, row in ACTION["inputs"].items()} | inputs
    planning = step("Plan and compare")
    variables = {
        name: EXPRESSION.sub(lambda found: given[found[1]], text)
        for name, text in planning["env"].items()
    }
    output = folder / "outputs"
    output.touch()
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(folder / "step.md")}
    actions = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(folder)}
    process = shell(planning["run"], folder, programs, **variables, **files, **actions)
    code, said = ended(process)
    return code, said, dict(line.split("=", 1) for line in output.read_text().splitlines())


def test_the_action_writes_a_baseline_then_passes(tmp_path: Path, ours: Path, url: str) -> None:
    budget_file(tmp_path)
    code, said, _ = run_action(tmp_path, ours, server=url, **{"update-baseline": "true"})
    assert code == 0, said
    assert (tmp_path / "toast.baseline.json").exists()
    code, said, outputs = run_action(tmp_path, ours, server=url)
    assert code == 0, said
    assert outputs["exit-code"] == "0"
    for name in ("junit", "sarif"):
        assert (tmp_path / outputs[name]).exists()
    assert "within" in (tmp_path / "step.md").read_text()
    assert set(ACTION["outputs"]) == set(outputs)


def test_the_action_fails_and_marks_the_line(tmp_path: Path, ours: Path, url: str) -> None:
    budget_file(tmp_path, OVER)
    code, said, outputs = run_action(tmp_path, ours, server=url)
    assert (code, outputs["exit-code"]) == (1, "1"), said
    assert "::error file=toast.budget.toml,line=6," in said


def test_what_an_input_says_is_never_run(tmp_path: Path, ours: Path) -> None:
    budget_file(tmp_path)
    code, _, _ = run_action(tmp_path, ours, budget='$(touch stolen)"; touch stolen; "')
    assert code == 2
    assert not (tmp_path / "stolen").exists()
    for one in ACTION["runs"]["steps"]:
        assert "${{" not in one["run"]


def test_every_input_is_used_and_has_words() -> None:
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    page = (ROOT / "docs/ci.md").read_text()
    for name, row in {**ACTION["inputs"], **SPEC["spec"]["inputs"], **ACTION["outputs"]}.items():
        assert f"`{name}`" in page
        assert row.get("description") or name == "stage"


def test_the_action_installs_the_sources_that_it_comes_with(tmp_path: Path, programs: Path) -> None:
    """Without dependencies: they are there, and no index is asked."""
    for room in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / room, tmp_path / room, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    offline = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    process = shell(
        step("Install TOAST")["run"],
        tmp_path,
        programs,
        GITHUB_ACTION_PATH=str(tmp_path),
        **offline,
    )
    code, said = ended(process)
    assert code == 0, said
    work = tmp_path / "work"
    work.mkdir()
    code, said = ended(shell("toast ci --help", work, programs))
    assert code == 0, said
    assert "--update-baseline" in said


def run_component(folder: Path, programs: Path, **inputs: str) -> tuple[int, str]:
    """The script of the component's job, with these inputs in it."""
    given = {name: row.get("default") for name, row in SPEC["spec"]["inputs"].items()} | inputs
    job = JOBS["toast-budget"]
    variables = {
        name: SLOT.sub(lambda found: str(given[found[1]]), text)
        for name, text in job["variables"].items()
    }
    return ended(shell("\n".join(job["script"]), folder, programs, **variables))


def test_the_component_passes_and_fails_as_its_budget_says(
    tmp_path: Path, ours: Path, url: str
) -> None:
    budget_file(tmp_path)
    code, said = run_component(tmp_path, ours, image="x", server=url)
    assert code == 0, said
    report = JOBS["toast-budget"]["artifacts"]["reports"]["junit"]
    given = SPEC["spec"]["inputs"]["reports"]["default"]
    assert (tmp_path / SLOT.sub(given, report)).exists()
    budget_file(tmp_path, OVER)
    assert run_component(tmp_path, ours, image="x", server=url)[0] == 1


def test_the_component_reaches_for_a_service_that_is_named(tmp_path: Path, ours: Path) -> None:
    budget_file(tmp_path)
    code, said = run_component(tmp_path, ours, image="x", server="http://127.0.0.1:9")
    assert code == 3, said
    assert "no TOAST service" in said


def test_the_component_uses_the_inputs_that_it_declares() -> None:
    text = (ROOT / "templates/toast-ci.yml").read_text()
    assert set(SLOT.findall(text)) == set(SPEC["spec"]["inputs"])
