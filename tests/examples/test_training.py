"""The training scripts run as they stand, and compare their numbers themselves."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples import training

FOLDER = Path(training.__file__).parent
NEEDS = {
    "optax_step": ("optax",),
    "linen_step": ("flax", "optax"),
    "nnx_step": ("flax", "optax"),
    "equinox_step": ("equinox", "optax"),
    "haiku_step": ("haiku", "optax"),
}


def run(script: str, folder: Path) -> str:
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XDG_CACHE_HOME": str(folder),
        "PYTHONPATH": str(FOLDER.parents[1]),
    }
    environment.pop("TOAST_URL", None)
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(FOLDER / f"{script}.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert any(f"'{axis}'" in done.stdout for axis in ("d0", "d1", "data", "model"))
    return done.stdout


def test_plain_jax(tmp_path: Path) -> None:
    run("jax_step", tmp_path)
    assert list((tmp_path / "toast" / "plans").iterdir())


@pytest.mark.nightly
@pytest.mark.parametrize("script", NEEDS)
def test_a_library(script: str, tmp_path: Path) -> None:
    missing = [name for name in NEEDS[script] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; see `.[libraries]`")
    run(script, tmp_path)


def test_every_script_is_run() -> None:
    scripts = {path.stem for path in FOLDER.glob("*_step.py")}
    assert scripts == {"jax_step", *NEEDS}
