"""Which code gave a verdict: digests of what planned a program, and of what compared it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANNING = ("analysis", "costmodel", "search", "toast", "examples/models")
COMPARING = ("toast/verify",)
CASES = ROOT / "benchmarks" / "proof" / "cases.py"


@cache
def planning() -> str:
    """Changes with any source that a plan may come from."""
    return _digest(PLANNING, CASES)


@cache
def comparing() -> str:
    """Changes with the sources that compare two modules, and with XLA.

    How they are scaled down is not among them: what comes out of that is in a record's digest.
    """
    return _digest(COMPARING)


def _digest(folders: Iterable[str], *others: Path) -> str:
    found = hashlib.sha256(repr([metadata.version(one) for one in ("jax", "jaxlib")]).encode())
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for path in [*sorted(files), *others]:
        found.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def stamp() -> dict[str, str]:
    """What a record says of the code that made it."""
    return {"planning": planning(), "comparing": comparing()}
