"""The distribution beside a user's own packages that have the names of our rooms.

A wheel is built from the sources and installed into an environment of its own, which borrows
nothing of this one but the dependencies. Then every entry runs in a folder that holds packages
called `analysis`, `costmodel`, `search` and `service`.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.ground.repository import ROOMS, ROOT
from tests.modules import text
from toast.demo import READY

OTHERS = tuple(room for room in ROOMS if room != "toast")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
LIBRARY = """
import analysis, costmodel.mine, search.mine, service
import toast
result = toast.plan(sys.argv[1], mesh="data=2")
from toast.analysis.load import load
assert result.plan.predicted.peak_bytes > 0
assert analysis.OWNER == service.OWNER == costmodel.mine.OWNER == search.mine.OWNER == "user"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of a copy of the sources."""
    folder = tmp_path_factory.mktemp("sources")
    for room in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, folder / room, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-c", BUILD, str(out)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    interpreter = folder / "bin" / "python"
    install = ["install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    pip = [sys.executable, "-m", "pip", "--python", str(interpreter), "--disable-pip-version-check"]
    subprocess.run([*pip, *install], check=True, capture_output=True, env=environment())
    (packages,) = folder.glob("lib/python*/site-packages")
    # A path in a .pth file is searched, but the .pth files there, such as ours, are not read.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    return interpreter


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A user's folder with packages of these names: two regular ones, two namespace packages."""
    for name in ("analysis", "service"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('OWNER = "user"\n')
    for name in ("costmodel", "search"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text('OWNER = "user"\n')
    (tmp_path / "step.mlir").write_bytes(text("mlp"))
    return tmp_path


def environment() -> dict[str, str]:
    """This environment without what would lead a child to these sources."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


def run(workplace: Path, *command: object) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=workplace,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_brings_one_package(wheel: Path) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert sorted(name for name in names if not name.endswith(".dist-info")) == ["toast"]


def test_a_wheel_brings_the_rooms_with_their_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = [
        f"toast/{path.relative_to(ROOT).as_posix()}" if room != "toast" else f"toast/{rest}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".py", ".toml", ".html", ".css", ".js", ".mako", ".ini", ".txtpb")
        for rest in [path.relative_to(ROOT / room).as_posix()]
    ]
    assert [name for name in wanted if name not in names] == []


def test_an_editable_installation_brings_one_package() -> None:
    assert metadata.distribution("toast-planner").read_text("top_level.txt") == "toast\n"


@pytest.fixture
def address(python: Path, workplace: Path) -> Iterator[str]:
    """The URL of a service that was started in the user's folder."""
    command = [python.parent / "toast", "serve", "--port", "0", "--data", "data"]
    with subprocess.Popen(
        [*map(str, command)],
        cwd=workplace,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if READY in line)
        yield line.partition(READY)[2].strip()
        process.terminate()


def test_the_library_works_beside_packages_of_these_names(python: Path, workplace: Path) -> None:
    (workplace / "script.py").write_text(f"import sys\n{LIBRARY}")
    run(workplace, python, "script.py", "step.mlir")


def test_the_command_works_beside_packages_of_these_names(python: Path, workplace: Path) -> None:
    printed = run(
        workplace, python, "-m", "toast", "plan", "step.mlir", "--mesh", "data=2", "-o", "out"
    )
    assert "data=2" in printed
    assert (workplace / "out" / "plan.json").exists()


def test_the_service_works_beside_packages_of_these_names(
    python: Path, workplace: Path, address: str
) -> None:
    command = [python.parent / "toast", "submit", "step.mlir", "--url", address]
    run(workplace, *command, "--mesh", "data=2", "-o", "out")
    assert (workplace / "out" / "plan.json").exists()
