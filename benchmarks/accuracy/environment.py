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
    """The interpreter of the environment of the compilers at `place`; see `made`."""
    wanted = "".join((ROOT / name).read_text() for name in ("pyproject.toml", "constraints.txt"))
    return made(place, wanted, ["-c", "constraints.txt", "-e", f".[{EXTRAS}]"])


def made(place: Path, wanted: str, install: list[str]) -> Path:
    """The interpreter of the environment at `place`, made and filled where that is not done.

    pip is given `install`; it is made anew when `wanted`, what has to be in it, has changed. Raises
    CalledProcessError where pip fails; what is half done is done again the next time.
    """
    python, stamp = place / "bin" / "python", place / ".installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing the compilers into {place}", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *install], check=True, cwd=ROOT)
    stamp.write_text(wanted)
    return python


def rerun(arguments: list[str], place: Path = PLACE, program: str = "benchmarks.accuracy") -> int:
    """Run a program with these arguments in the environment; returns its exit code."""
    return run_in(ensure(place), arguments, program)


def run_in(python: Path, arguments: list[str], program: str) -> int:
    """Run a program of this tree with an interpreter; returns its exit code."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", program, *arguments]
    return subprocess.run(command, check=False, env=environment).returncode
