"""`python -m examples.models` writes what it is asked for and prints how large it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import forms
from examples.models import MODELS
from examples.models.__main__ import main
from toast.analysis.forms import Form, detect


def test_a_model_is_written_by_its_own_process(tmp_path: Path) -> None:
    out = tmp_path / "new" / "step.mlirbc"
    root = Path(forms.__file__).parent.parent
    command = [sys.executable, "-m", "examples.models", "gpt", "--preset", "tiny", "--scan"]
    done = subprocess.run(
        [*command, "--form", "bytecode", "-o", str(out)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stderr
    assert detect(out.read_bytes()) is Form.BYTECODE
    assert "gpt_tiny_scan as bytecode" in done.stderr
    assert "parameters: 99,968" in done.stderr


@pytest.mark.parametrize("name", MODELS)
def test_every_model_says_how_large_it_is(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = MODELS[name]
    assert main([name, "--preset", "tiny", "-o", str(tmp_path / "step.mlirbc")]) == 0
    assert f"parameters: {model.count(model.config('tiny')):,}" in capsys.readouterr().err


def test_the_published_size_is_printed_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gat", "-o", str(tmp_path / "gat.mlirbc")]) == 0
    assert "parameters: 4,832,231,424 (published: 4,830,000,000)" in capsys.readouterr().err


@pytest.mark.parametrize("form", forms.FORMS)
def test_the_default_name_tells_model_size_and_form(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["gat", "--preset", "tiny", "--form", form]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"gat_tiny{forms.SUFFIXES[form]}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["unet", "--scan"], "unet has no layers to scan over"),
        (["t2b", "--preset", "huge"], "t2b has the presets paper, tiny"),
        (["bert"], "invalid choice: 'bert'"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
