"""The kernels are compiled once, whoever asks first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toast.costmodel.kernels import reshard as kernelmoves
from toast.costmodel.terms import listing
from toast.search import kernel_cache as warm

ROOT = Path(warm.__file__).parent.parent
COUNTED = """
import toast.search.kernel_cache as w
def count():
    with open({log!r}, "a") as file:
        file.write("x")
w._compile = count
def told():
    with open({told!r}, "a") as file:
        file.write("x")
w.warm_kernels(on_compile=told)
"""


def ask(directory: Path) -> subprocess.Popen[bytes]:
    """A process that wants the kernels in a cache of its own, and counts what it compiles."""
    code = COUNTED.format(log=str(directory / "compiled"), told=str(directory / "told"))
    env = os.environ | {"NUMBA_CACHE_DIR": str(directory / "kernels")}
    return subprocess.Popen([sys.executable, "-c", code], env=env, cwd=ROOT)


def test_two_processes_at_once_compile_once(tmp_path: Path) -> None:
    children = [ask(tmp_path) for _ in range(2)]
    assert [child.wait(120) for child in children] == [0, 0]
    assert (tmp_path / "compiled").read_text() == "x"


def test_another_folder_for_temporary_files_is_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(tmp_path).wait(120) == 0
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert ask(tmp_path).wait(120) == 0
    assert (tmp_path / "compiled").read_text() == "x"
    assert (tmp_path / "told").read_text() == "x", "only who has to wait is told"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the rooms with kernels, which `warm` takes for its own."""
    for name in ("analysis", "costmodel", "search"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(getattr(warm, name), "__path__", [str(tmp_path / name)])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "compiled"),
    [
        (kernelmoves.__name__, True),
        ("toast.costmodel.terms.journal", True),  # kernels read its constants
        (listing.__name__, False),
        ("toast.search.mcts", False),
    ],
)
def test_kernels_are_of_their_sources_and_what_these_import(
    copied: Path, name: str, compiled: bool
) -> None:
    before = warm._fingerprint()
    file = copied / f"{name.replace('.', '/')}.py"
    file.write_text(file.read_text() + "# changed")
    assert (warm._fingerprint() != before) is compiled


def test_kernels_of_another_version_are_forgotten(tmp_path: Path) -> None:
    """A kernel's own file may be the same while one that it calls is not."""
    code = (
        "import toast.search.kernel_cache as w; print(w._ENTRIES[0].stats.cache_path); w._forget()"
    )
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def forget() -> Path:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, check=True)
        return Path(done.stdout.decode().strip())

    folder = forget()
    folder.mkdir(parents=True, exist_ok=True)
    stale = [folder / f"a.b-1.{warm._TAG}.nbi", folder / f"a.b-1.{warm._TAG}.1.nbc"]
    stale.append(folder / "toast-kernels-0123456789abcdef")
    kept = [folder / "a.b-1.py39.nbi", folder / "toast-kernels-lock", folder / "a.pyc"]
    for file in (*stale, *kept):
        file.touch()
    assert forget() == folder
    assert [file.exists() for file in stale] == [False] * 3
    assert all(file.exists() for file in kept)
