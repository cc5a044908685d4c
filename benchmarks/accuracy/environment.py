"""An environment with the TPU and the GPU compiler, made once, beside the one for development."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = ROOT / ".venv-aot"
EXTRAS = "dev,aot,aot-cuda"


def ensure(place: Path = PLACE) -> Path:
    """The interpreter of the environment at `place`, made and filled where that is not done.

    It is made anew when what has to be installed has changed. Raises CalledProcessError where pip
    fails; what is half done is done again the next time.
    """
    python, stamp = place / "bin" / "python", place / ".installed"
    wanted = "".join((ROOT / name).read_text() for name in ("pyproject.toml", "constraints.txt"))
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing the compilers into {place}", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", "constraints.txt", "-e", f".[{EXTRAS}]"], check=True, cwd=ROOT)
    stamp.write_text(wanted)
    return python


def rerun(arguments: list[str], place: Path = PLACE) -> int:
    """Run this program with these arguments in the environment; returns its exit code."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [str(ensure(place)), "-m", "benchmarks.accuracy", *arguments]
    return subprocess.run(command, check=False, env=environment).returncode
