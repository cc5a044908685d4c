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
        "w._compile = count\n"
        "w.warm_kernels()\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [child.wait(120) for child in children] == [0, 0]
    assert (tmp_path / "compiled").read_text() == "x"
