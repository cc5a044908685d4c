"""The command of the contest's problems says what it cannot find."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import contest


@pytest.mark.parametrize(
    ("names", "told"), [("A,B", "A.json.gz, B.json.gz"), ("Q", "unknown: Q; known: A, B, G, V")]
)
def test_absent_and_unknown_problems_are_named(
    names: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["contest", str(tmp_path), "--problems", names])
    with pytest.raises(SystemExit) as stopped:
        contest.main()
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err
