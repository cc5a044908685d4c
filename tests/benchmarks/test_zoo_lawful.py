"""The command that looks for prices that break a law."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from benchmarks.zoo import lawful
from benchmarks.zoo.laws import Breach
from benchmarks.zoo.lowering import path_of
from examples import mlp
from examples.forms import serialize


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One program of each half, which are the same."""
    step = mlp.make_step(mlp.Config(batch=64, inputs=256, hidden=512, outputs=128))
    rows = []
    for half in ("tuning", "held-out"):
        path = path_of(f"{half}/train", tmp_path)
        path.parent.mkdir()
        path.write_bytes(lzma.compress(serialize(step, "bytecode")))
        rows.append({"key": f"{half}/train", "architecture": half, "half": half, "digest": "d"})
    facts = tmp_path / "programs.jsonl"
    facts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(lawful, "PROGRAMS", facts)
    for name in ("path_of", "module_of"):
        known = getattr(lawful, name)
        monkeypatch.setattr(lawful, name, lambda program, known=known: known(program, tmp_path))
    return tmp_path


@pytest.mark.usefixtures("programs")
def test_lawful_programs_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    found = lawful.check_laws("tpu-v5e:2x4")
    assert lawful.law_lines(found) == ["tuning: 1 programs", "held-out: 1 programs"]
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("programs")
def test_of_the_held_out_half_breaches_are_only_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> list[Breach]:
        return [Breach(law="what is held", priced=1.0, least=2.0)]

    monkeypatch.setattr(lawful, "breaches", broken)
    found = lawful.check_laws("tpu-v5e:2x4")
    said = capsys.readouterr().out
    assert "tuning/train whole on data=8: what is held, 1 of 2" in said
    assert "held-out/train" not in said
    assert found[("held-out", "what is held")] == found[("tuning", "what is held")] == 4


@pytest.mark.usefixtures("programs")
def test_only_what_is_wanted_is_looked_at() -> None:
    assert lawful.check_laws("tpu-v5e:2x4", {"tuning"})[("held-out", "programs")] == 0
