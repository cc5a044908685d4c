"""The kernels are compiled once, whoever asks first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from search import warm


def test_the_marker_changes_with_the_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    before = warm._fingerprint()
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/somewhere/else")
    assert warm._fingerprint() != before


def test_two_processes_at_once_compile_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code = (
        "import search.warm as w, pathlib, tempfile\n"
        "def count():\n"
        "    path = pathlib.Path(tempfile.gettempdir()) / 'compiled'\n"
        "    with path.open('a') as file: file.write('x')\n"
        "w._compile, w._forget = count, lambda: None\n"
        "w.warm_kernels()\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [child.wait(120) for child in children] == [0, 0]
    assert (tmp_path / "compiled").read_text() == "x"


def test_kernels_of_another_version_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel's own file may be the same while one that it calls is not."""
    stale = [tmp_path / name for name in ("__pycache__/a.nbi", "inner/__pycache__/b.1.nbc")]
    kept = tmp_path / "__pycache__/a.pyc"
    for file in (*stale, kept):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setattr(warm, "_folders", lambda: [tmp_path])
    warm._forget()
    assert kept.exists()
    assert not any(file.exists() for file in stale)
