"""Two environments: one has the libraries, the other the compilers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from benchmarks.accuracy import environment
from benchmarks.accuracy.environment import ROOT, made, run_in

PLACE = ROOT / ".venv-zoo"
EXTRAS = "libraries"
PROGRAM = "benchmarks.zoo"
NEEDS = {
    "lower": ("flax", "transformers", "diffusers", "equinox", "haiku", "jraph", "optax"),
    "compile": ("libtpu",),
}


def ensure(place: Path = PLACE) -> Path:
    """The interpreter of the environment of the libraries, made where that is not done."""
    wanted = "".join((ROOT / name).read_text() for name in ("pyproject.toml", "constraints.txt"))
    return made(place, wanted, ["-c", "constraints.txt", "-e", f".[{EXTRAS}]"])


def rerun(command: str, arguments: list[str]) -> int | None:
    """Run a command where there is what it needs; its exit code, or None where that is here."""
    needs = NEEDS.get(command, ())
    if all(importlib.util.find_spec(name) is not None for name in needs):
        return None
    python = ensure() if command == "lower" else environment.ensure()
    return run_in(python, arguments, PROGRAM)
