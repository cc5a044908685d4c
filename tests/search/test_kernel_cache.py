"""The kernels are compiled once, whoever asks first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from toast.analysis import kernel_store
from toast.search import kernel_cache

ROOT = kernel_store.PACKAGE.parent
COUNTED = """
import sys, time
from pathlib import Path
import toast.search.kernel_cache as cache

folder, name = Path(sys.argv[1]), sys.argv[2]

def write(file, text):
    with (folder / file).open("a") as log:
        log.write(text)

def count(on_share):
    write("compiled", "x")
    on_share(0.25)
    while not (folder / "done").exists():
        time.sleep(0.01)

cache.compile_all = count
cache.warm_kernels(lambda share: write(name, f"{share}\\n"))
"""


def ask(directory: Path, name: str) -> subprocess.Popen[bytes]:
    """A process that wants the kernels in a cache of its own, and writes down the progress.

    If it has to compile them it takes until there is a file `done`.
    """
    env = os.environ | {"NUMBA_CACHE_DIR": str(directory / "kernels")}
    return subprocess.Popen([sys.executable, "-c", COUNTED, directory, name], env=env, cwd=ROOT)


def shares(directory: Path, name: str) -> list[float]:
    told = directory / name
    return [float(line) for line in told.read_text().split()] if told.exists() else []


def test_of_two_processes_at_once_one_compiles_and_the_other_sees_its_progress(
    tmp_path: Path,
) -> None:
    children = [ask(tmp_path, name) for name in ("one", "two")]
    deadline = time.monotonic() + 100.0
    while not all(0.25 in shares(tmp_path, name) for name in ("one", "two")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (tmp_path / "done").touch()
    assert [child.wait(100) for child in children] == [0, 0]
    assert (tmp_path / "compiled").read_text() == "x"


def test_a_later_process_reports_no_progress(tmp_path: Path) -> None:
    (tmp_path / "done").touch()
    assert ask(tmp_path, "first").wait(100) == 0
    assert shares(tmp_path, "first") == [0.0, 0.25]
    assert ask(tmp_path, "second").wait(100) == 0
    assert shares(tmp_path, "second") == []
    assert (tmp_path / "compiled").read_text() == "x"


def test_another_folder_for_temporary_files_is_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "done").touch()
    assert ask(tmp_path, "first").wait(100) == 0
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert ask(tmp_path, "second").wait(100) == 0
    assert (tmp_path / "compiled").read_text() == "x"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the rooms with kernels, under a package as they are under `toast`."""
    for room in kernel_cache.ROOMS:
        leave_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, tmp_path / "toast" / room, ignore=leave_out)
    return tmp_path / "toast"


@pytest.mark.parametrize(
    ("name", "compiled"),
    [
        ("costmodel/kernels/reshard.py", True),
        ("costmodel/terms/journal.py", True),  # kernels read its constants
        ("analysis/jit.py", True),
        ("costmodel/terms/listing.py", False),
        ("search/mcts.py", False),
    ],
)
def test_kernels_are_of_their_sources_and_what_these_import(
    copied: Path, name: str, compiled: bool
) -> None:
    before = kernel_cache.fingerprint(copied)
    file = copied / name
    file.write_text(file.read_text() + "# changed")
    assert (kernel_cache.fingerprint(copied) != before) is compiled


class Few(NamedTuple):
    weight: float


class More(NamedTuple):
    weight: float
    rows: int


class OfFew(NamedTuple):
    inside: Few


class OfMore(NamedTuple):
    inside: More


def test_kernels_are_of_the_fields_of_records_in_records(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for tables in (OfFew, OfMore):
        monkeypatch.setattr(kernel_cache, "Tables", tables)
        found.add(kernel_cache.fingerprint())
    assert len(found) == 2


def test_a_kernel_in_a_package_below_is_one_of_them(copied: Path) -> None:
    before = kernel_cache.fingerprint(copied)
    below = copied / "search" / "deep" / "deeper"
    below.mkdir(parents=True)
    (below / "new.py").write_text("from toast.analysis.jit import entry\n")
    assert kernel_cache.fingerprint(copied) != before


def test_only_what_is_a_month_old_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other versions, which may be in use, and never of this one."""
    monkeypatch.setattr(kernel_store.Kept, "used", {"used-3.kernel"})
    marker = tmp_path / "toast-kernels-0123"
    for name in ("old-1.kernel", "new-2.kernel", "used-3.kernel", marker.name, "lock-0"):
        (tmp_path / name).touch()
    for name in ("old-1.kernel", "used-3.kernel"):
        os.utime(tmp_path / name, (0, time.time() - 31 * 86400))
    kernel_cache.forget_old(tmp_path)
    kept = {file.name for file in tmp_path.iterdir()}
    assert kept == {"new-2.kernel", "used-3.kernel", "lock-0"}, "whoever lacks one looks again"
    marker.touch()
    kernel_cache.forget_old(tmp_path)
    assert marker.exists()
