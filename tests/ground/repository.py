"""Where things are in this repository, for the tests about it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("analysis", "costmodel", "search", "toast", "service")
SOURCES = (*ROOMS, "benchmarks", "examples", "tests", "tools")


def sources(*folders: str) -> Iterator[Path]:
    """Every Python file under the named folders of the repository (all of them when none is)."""
    for folder in folders or SOURCES:
        yield from sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    """The path as it is written in a message."""
    return path.relative_to(ROOT).as_posix()


def pyproject() -> dict[str, Any]:
    """The whole of `pyproject.toml`."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())
