"""Kernels are kept where they may be, and those of other sources are not run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toast.analysis import kernel_store

ROOT = kernel_store.PACKAGE.parent
RUN = """
from numba.core import event
from toast.calls.deep import outer
class Count(event.Listener):
    found = []
    def on_start(self, happened):
        pass
    def on_end(self, happened):
        self.found.append(happened.data["dispatcher"].py_func.__name__)
with event.install_listener("numba:compile", Count()):
    print(outer(20), *Count.found)
"""
OUTER = """from toast.analysis.jit import entry
from toast.calls.below import inside


@entry
def outer(x: int) -> int:
    return inside(x) + 1
"""
BELOW = """from toast.analysis.jit import inner
from toast.calls import constants


@inner
def inside(x: int) -> int:
    return x * constants.FACTOR
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package `toast` with this room and kernels that call others in packages of their own."""
    made = tmp_path / "installed" / "toast"
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "analysis", made / "analysis", ignore=leave_out)
    calls = made / "calls"
    (calls / "deep").mkdir(parents=True)
    for folder in (made, calls):
        (folder / "__init__.py").write_text("")
    (calls / "deep" / "__init__.py").write_text(OUTER)
    (calls / "below.py").write_text(BELOW)
    (calls / "constants.py").write_text("FACTOR = 2\n")
    return made


def call(package: Path, **environment: str) -> list[str]:
    """The result of the kernel in a process of its own, and the names of what it compiled."""
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    env |= {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    command = [sys.executable, "-P", "-c", RUN]
    done = subprocess.run(command, env=env, cwd=package.parent, capture_output=True, check=True)
    return done.stdout.decode().split()


def kernels(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel"))


def test_a_kernel_is_kept_next_to_the_sources(package: Path) -> None:
    assert call(package) == ["41", "inside", "outer"]
    assert len(kernels(package / "__pycache__")) == 1
    assert call(package) == ["41"]


def test_the_folder_for_numba_is_taken_where_it_is_named(package: Path, tmp_path: Path) -> None:
    named = {"NUMBA_CACHE_DIR": str(tmp_path / "named")}
    assert call(package, **named) == ["41", "inside", "outer"]
    assert len(kernels(tmp_path / "named")) == 1
    assert not kernels(package)
    assert call(package, **named) == ["41"]


@pytest.mark.parametrize("changed", ["calls/deep/__init__.py", "calls/below.py"])
def test_what_has_another_source_is_compiled_again(package: Path, changed: str) -> None:
    call(package)
    file = package / changed
    file.write_text(file.read_text().replace("return ", "return 100 + "))
    assert call(package) == ["141", "inside", "outer"]
    assert call(package) == ["141"]


def test_a_constant_of_another_file_is_compiled_in(package: Path) -> None:
    call(package)
    (package / "calls" / "constants.py").write_text("FACTOR = 3\n")
    assert call(package) == ["61", "inside", "outer"]


def test_going_back_to_earlier_sources_compiles_nothing(package: Path) -> None:
    call(package)
    constants = package / "calls" / "constants.py"
    earlier = constants.read_text()
    constants.write_text("FACTOR = 3\n")
    call(package)
    constants.write_text(earlier)
    assert call(package) == ["41"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_where_nothing_may_be_written_beside_the_sources_the_user_keeps_them(
    package: Path, tmp_path: Path
) -> None:
    package.chmod(0o555)
    check_read_only(package, tmp_path)


def test_a_file_in_the_place_of_the_folder_is_as_good_as_read_only(
    package: Path, tmp_path: Path
) -> None:
    """Root may write to a folder that is read-only, but nobody into a file."""
    (package / "__pycache__").write_text("")
    check_read_only(package, tmp_path)


def check_read_only(package: Path, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert call(package, **cache) == ["41", "inside", "outer"]
    assert len(kernels(tmp_path / "cache" / "toast")) == 1
    assert call(package, **cache) == ["41"]


def test_where_nothing_can_be_kept_kernels_run_all_the_same(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nowhere = {"NUMBA_CACHE_DIR": str(tmp_path / "file")}
    assert call(package, **nowhere) == call(package, **nowhere) == ["41", "inside", "outer"]


def test_imports_are_followed_through_packages_and_names_in_them(package: Path) -> None:
    found = kernel_store.with_imports([package / "calls" / "deep" / "__init__.py"], package)
    names = {str(file.relative_to(package)) for file in found}
    assert {"calls/below.py", "calls/constants.py", "analysis/jit.py"} < names
    assert "analysis/analyse.py" not in names
