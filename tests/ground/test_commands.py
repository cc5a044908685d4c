"""The one loop: the Makefile's targets, what CI calls, and what commits are checked with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tests.ground.repository import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE))
WANTED = {"help", "setup", "demo", "test", "lint", "check", "fmt", "nightly", "image", "image-test"}

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str) -> str:
    """What `make` prints for these arguments."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--no-print-directory", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=clean)
    return done.stdout


@needs_make
def test_make_alone_lists_every_target() -> None:
    listed = {line.split()[0] for line in make().splitlines()}
    assert listed == TARGETS
    assert listed >= WANTED


@needs_make
@pytest.mark.parametrize("target", sorted(TARGETS - {"help", "clean", "setup"}))
def test_every_target_sets_the_environment_up_first(target: str) -> None:
    plan = make("--dry-run", "--always-make", target)
    assert "pip install" in plan
    assert "-c constraints.txt -e '.[dev]'" in plan


@needs_make
def test_the_test_command_checks_imports_then_runs_the_tests() -> None:
    plan = make("--dry-run", "test")
    assert plan.index("lint-imports") < plan.index("-m pytest")


@needs_make
def test_an_interpreter_can_be_named() -> None:
    plan = make("--dry-run", "--always-make", "setup", "PYTHON=/some/python")
    assert '"/some/python" -m venv' in plan


def test_ci_runs_the_static_checks_and_the_readme_test_command() -> None:
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line.startswith("make ")]
    assert commands == ["make lint", "make test"]
    assert "make test " in (ROOT / "README.md").read_text()


def test_commits_are_checked_with_the_pieces_of_make_lint() -> None:
    config = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (.+)$", config, re.MULTILINE) == ["local"]
    entries = re.findall(r"^ +entry: (.+)$", config, re.MULTILINE)
    prerequisites = re.search(r"^lint: (.+?) ##", MAKEFILE, re.MULTILINE)
    assert prerequisites is not None
    assert entries == [f"make {piece}" for piece in prerequisites[1].split()]


def test_the_development_page_names_every_command_that_it_explains() -> None:
    page = (ROOT / "docs/development.md").read_text()
    named = set(re.findall(r"make ([a-z-]+)", page))
    assert named <= TARGETS | {"alone"}
    assert {"lint", "test", "nightly", "image-test", "fmt", "check", "setup"} <= named
