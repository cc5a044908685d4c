"""Compile what has not been compiled, each program in a process that may die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from benchmarks.accuracy.records import Record, append_record, read_records
from benchmarks.zoo.cases import Case
from benchmarks.zoo.child import NO_COMPILER
from toast.analysis.errors import InvalidRequest

SECONDS_EACH = 900.0
ROOT = Path(__file__).parents[2]


def compile_all(
    groups: Iterable[list[Case]],
    folder: Path,
    *,
    memory_only: bool,
    limit: int | None = None,
    seconds: float | None = None,
    seconds_each: float = SECONDS_EACH,
    hlo: Path | None = None,
) -> int:
    """Compile the cases of all groups that have no record yet; returns how many got one.

    Nothing is started after `limit` cases, or after `seconds`; one that takes longer than
    `seconds_each` is given up. `hlo` keeps the compiled texts of the tuning half.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started, count = time.monotonic(), 0
    known = records_of(folder)
    done = partial(is_done, memory_only=memory_only, seconds_each=seconds_each)
    for group in groups:
        late = seconds is not None and time.monotonic() - started > seconds
        if late or (limit is not None and count >= limit):
            break
        pending = [case for case in group if not done(known.get(case.key))]
        pending = pending[: None if limit is None else limit - count]
        if not pending:
            continue
        failure = _child(
            pending, folder, memory_only=memory_only, seconds_each=seconds_each, hlo=hlo
        )
        fresh = records_of(folder, {case.file for case in pending})
        known |= fresh
        left = [case for case in pending if not done(fresh.get(case.key))]
        if left and failure:
            record = {"key": left[0].key, "error": failure, "seconds_each": seconds_each}
            append_record(folder / left[0].file, record)
            known[left[0].key] = record
        count += len(pending) - len(left)
    return count


def records_of(folder: Path, files: Iterable[str] | None = None) -> dict[str, Record]:
    """All records by key, or those of some files."""
    names = sorted(path.name for path in folder.glob("*-*.jsonl")) if files is None else files
    return {row["key"]: row for name in names for row in read_records(folder / name)}


def is_done(record: Record | None, *, memory_only: bool, seconds_each: float) -> bool:
    """Whether a case need not be compiled: what was compiled whole says all of its memory too.

    What failed is tried again when it is given more seconds.
    """
    if record is None or record.get("stale"):
        return False
    if "error" in record:
        return bool(record.get("seconds_each", 0.0) >= seconds_each)
    return memory_only or not record.get("compiled", {}).get("memory_only")


def _child(
    cases: list[Case], folder: Path, *, memory_only: bool, seconds_each: float, hlo: Path | None
) -> str | None:
    """Work through cases in another process; the reason where it ended badly."""
    job = {
        "keys": [case.key for case in cases],
        "folder": str(folder),
        "memory_only": memory_only,
        "seconds_each": seconds_each,
        "hlo": None if hlo is None else str(hlo),
    }
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.zoo.child", json.dumps(job)]
    try:
        done = subprocess.run(
            command, check=False, env=environment, timeout=len(cases) * (seconds_each + 120)
        )
    except subprocess.TimeoutExpired:
        return "it was late"
    if done.returncode == NO_COMPILER:
        raise InvalidRequest(
            f"There is no compiler for {cases[0].target} here.", "Run it in .venv-aot."
        )
    if done.returncode < 0:
        return f"its process ended with signal {-done.returncode}"
    return f"its process ended with code {done.returncode}" if done.returncode else None
