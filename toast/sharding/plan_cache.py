"""Plans on disk, for the next call of the same function.

A key is made of all that decides a plan: the program, the request, the device's figures, and the
code of this package. Entries are whole files, renamed into place, so that any number of processes
may read and write; the oldest go when there are too many.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path

from toast.costmodel.hardware.devices import find
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest

MAX_BYTES = 1 << 30
MAX_ENTRIES = 500
_SUFFIX = ".zip"
_LIBRARIES = ("jax", "jaxlib")


def plans_folder() -> Path:
    """Where plans are kept: `$XDG_CACHE_HOME/toast/plans`, or the same under `~/.cache`."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".cache"
    return base / "toast" / "plans"


def plan_key(program: bytes, request: PlanRequest) -> str:
    """What a plan is kept under; `program` is what makes one program another."""
    digest = hashlib.sha256(program)
    for part in (request.model_dump_json(), repr(find(request.device)), _version()):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()


def read_plan(key: str) -> PlanResult | None:
    """The plan kept under `key`; None where there is none, or none that can be read."""
    path = plans_folder() / f"{key}{_SUFFIX}"
    try:
        with zipfile.ZipFile(path) as entry:
            plan = Plan.from_json(entry.read("plan.json"))
            name = next(name for name in entry.namelist() if name.startswith("sharded"))
            module = entry.read(name)
        os.utime(path)
    except (OSError, ValueError, KeyError, StopIteration, zipfile.BadZipFile):
        return None
    return PlanResult(plan=plan, module=module, suffix=name.removeprefix("sharded"))


def write_plan(key: str, result: PlanResult) -> None:
    """Keep a plan; where that is not possible it is not kept."""
    folder = plans_folder()
    temporary = folder / f".{key}.{uuid.uuid4().hex}.tmp"
    with contextlib.suppress(OSError):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as entry:
                entry.writestr("plan.json", result.plan.to_json())
                entry.writestr(f"sharded{result.suffix}", result.module)
            temporary.replace(folder / f"{key}{_SUFFIX}")
        finally:
            temporary.unlink(missing_ok=True)
        _forget_oldest(folder)


def _forget_oldest(folder: Path) -> None:
    """Delete what was not used for longest, until the rest is within the bounds."""
    entries = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            entries.append((path.stat().st_mtime, path.stat().st_size, path))
    total = 0
    for number, (_, size, path) in enumerate(sorted(entries, reverse=True)):
        total += size
        if number >= MAX_ENTRIES or (number and total > MAX_BYTES):
            path.unlink(missing_ok=True)


@cache
def _version() -> str:
    """The versions that a plan depends on, and the state of our own files."""
    root = Path(__file__).resolve().parents[1]
    rooms = [root, *(root / name for name in ("analysis", "costmodel", "search"))]
    files = sorted(
        {file for room in rooms for kind in ("*.py", "*.toml") for file in room.rglob(kind)}
    )
    digest = hashlib.sha256()
    for file in files:
        status = file.stat()
        digest.update(f"{file}:{status.st_size}:{status.st_mtime_ns}\n".encode())
    versions = [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    return f"{digest.hexdigest()} {versions}"
