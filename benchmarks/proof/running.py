"""Proves the cases that have no verdict of this code, each with a time limit."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.accuracy.records import Record, append_record, read_records, write_records
from benchmarks.proof import checker
from benchmarks.proof.cases import DEVICES, Case
from benchmarks.proof.child import unfinished
from toast.process.runner import Event, Limits, python_module, run

CASE_SECONDS = 900.0
"""A case that takes longer is given up."""
MEMORY = 14 << 30
ENVIRONMENT = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}


def prove_cases(
    cases: Iterable[Case],
    data: Path,
    *,
    limit: int | None = None,
    seconds: float | None = None,
    case_seconds: float = CASE_SECONDS,
) -> int:
    """Prove what has no record of this code, one process for each model; returns how many.

    At most `limit` cases, those without any record first, and none is begun after so many seconds.
    """
    data.parent.mkdir(parents=True, exist_ok=True)
    fresh = {record["key"]: is_fresh(record) for record in read_records(data)}
    stale = sorted(
        (case for case in cases if not fresh.get(case.key)), key=lambda c: c.key in fresh
    )
    todo = stale[:limit]
    ends = time.monotonic() + (float("inf") if seconds is None else seconds)
    count = 0
    for _, group in itertools.groupby(todo, key=lambda case: case.model):
        waiting = list(group)
        while waiting and time.monotonic() < ends:
            done = Session(data, ends, case_seconds).run(waiting)
            waiting = [case for case in waiting if case.key not in done]
            count += len(done)
    write_records(data, sorted(read_records(data), key=lambda record: str(record["key"])))
    return count


def is_fresh(record: Record) -> bool:
    """Whether this code gave the verdict."""
    return all(record[name] == value for name, value in checker.stamp().items())


class Session:
    """One process that proves cases; watches over the time of each."""

    def __init__(self, data: Path, ends: float, case_seconds: float) -> None:
        self._data, self._ends, self._case_seconds = data, ends, case_seconds
        self._done: set[str] = set()
        self._begun: str | None = None
        self._since = time.monotonic()
        self._is_late = False

    def run(self, cases: Sequence[Case]) -> set[str]:
        """The keys of the cases that have a verdict now: at least one, unless time is over."""
        with tempfile.TemporaryDirectory(prefix="toast-proof-") as name:
            outcome = run(
                Path(name),
                command=[
                    *python_module("benchmarks.proof.child"),
                    str(self._data),
                    *[case.key for case in cases],
                ],
                environment=ENVIRONMENT | {"PYTHONPATH": _path()},
                on_event=self._hear,
                cancelled=self._is_over,
                limits=Limits(memory_bytes=MEMORY),
            )
        if not self._done and self._begun is None and not self._is_late:
            outcome.raise_for_error()
        if self._begun is not None and not self._is_late:
            late = time.monotonic() - self._since > self._case_seconds
            why = f"it took more than {self._case_seconds:g} s" if late else str(outcome.error)
            self._keep({"key": self._begun, **checker.stamp(), "programs": "", **unfinished(why)})
        return self._done

    def _hear(self, event: Event) -> None:
        if event.get("event") == "begin":
            self._begun, self._since = str(event["key"]), time.monotonic()
            self._is_late = self._since > self._ends
        elif event.get("event") == "proved":
            self._begun = None
            self._keep(event["record"])

    def _is_over(self) -> bool:
        return self._is_late or time.monotonic() - self._since > self._case_seconds

    def _keep(self, record: Record) -> None:
        append_record(self._data, record)
        self._done.add(record["key"])
        took = sum(record.get("seconds", {}).values())
        same = f", as {record['same_as']}" if "same_as" in record else f" in {took:.0f} s"
        print(f"{record['key']}: {record['verdict']}{same} {record['why']}", file=sys.stderr)


def _path() -> str:
    return os.pathsep.join(filter(None, [str(checker.ROOT), os.environ.get("PYTHONPATH")]))
