"""The command line of the zoo says what it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.zoo import __main__ as zoo
from benchmarks.zoo import lowering


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command needs is here."""
    monkeypatch.setattr(zoo, "rerun", lambda *_: None)


def test_an_unknown_target_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo.main(["report", "--target", "tpu-v5:2x4"]) == 2
    assert "'tpu-v5:2x4' is no target. Known are: tpu-v5e:2x4" in capsys.readouterr().err


def test_an_unknown_architecture_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo.main(["lower", "--only", "albrt"]) == 2
    assert "'albrt' is no architecture. Known are: albert" in capsys.readouterr().err


def test_nothing_is_compiled_before_it_is_lowered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lowering, "path_of", lambda name: tmp_path / name)
    assert zoo.main(["compile", "--data", str(tmp_path)]) == 2
    assert "Run `lower` first." in capsys.readouterr().err


def test_a_pass_is_left_out_of_ablations_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo.main(["reprice", "--without", "cse"]) == 2
    assert "Only `ablation` takes --without and --own-batch." in capsys.readouterr().err
