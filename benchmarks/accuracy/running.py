"""Compile the cases that are not done yet, one at a time, and keep each as a line of JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from analysis.errors import ToastError
from benchmarks.accuracy.cases import Bench, Case, digest, plain, state_of
from toast.judge import Target, Verdict, judge

Record = dict[str, Any]


def read_records(path: Path) -> list[Record]:
    """All cases in a file; the last line of each case counts. A torn last line is no case."""
    found: dict[str, Record] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                record: Record = json.loads(line)
            except ValueError:
                continue
            found[record["key"]] = record
    return list(found.values())


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace the file, all or nothing."""
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(json.dumps(record) + "\n" for record in records))
    fresh.replace(path)


def run_cases(
    cases: Iterable[Case], path: Path, *, limit: int | None, seconds: float | None, hlo: Path | None
) -> int:
    """Run what is not in `path` yet; returns how many were run. `hlo` keeps the compiled texts."""
    done = {record["key"] for record in read_records(path) if not record.get("stale")}
    started, count = time.monotonic(), 0
    bench: tuple[tuple[str, str, str], Bench] | None = None
    path.parent.mkdir(parents=True, exist_ok=True)
    for case in cases:
        late = seconds is not None and time.monotonic() - started > seconds
        if late or (limit is not None and count >= limit):
            break
        if case.key in done:
            continue
        place = (case.model, case.mesh, case.target)
        if bench is None or bench[0] != place:
            bench = (place, Bench.make(*place))
        record = run_case(case, bench[1], hlo)
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        count += 1
        print(f"{count:3d} {case.key}: {_line(record)}", file=sys.stderr, flush=True)
    return count


def run_case(case: Case, bench: Bench, hlo: Path | None) -> Record:
    """Plan, price, write and compile one case; a compiler that fails is a record too."""
    state = bench.state(case.plan)
    module = bench.write(state)
    record: Record = {
        "key": case.key,
        "model": case.model,
        "mesh": case.mesh,
        "plan": case.plan,
        "target": case.target,
        "state": plain(state),
        "module": digest(module),
        "predicted": bench.predict(state),
        "versions": {name: metadata.version(name) for name in ("jax", "jaxlib")},
    }
    keep = None if hlo is None else hlo / f"{case.key.replace(' ', '_').replace(',', '_')}.hlo"
    try:
        target = Target.parse(case.target)
        verdict = judge(module, target, bench.evaluator.mesh, keep_hlo=keep)
    except ToastError as error:
        return record | {"error": f"{error.code}: {error.message}"}
    return record | {"compiled": verdict.to_dict()}


def reprice(path: Path) -> tuple[int, int]:
    """Price all states in `path` again with the cost model as it is; (repriced, stale) cases.

    A case whose module would be written differently today is stale: reports leave it out, and the
    next run compiles it again.
    """
    records = read_records(path)
    priced: list[Record] = []
    benches: dict[tuple[str, str, str], Bench] = {}
    for record in records:
        place = (record["model"], record["mesh"], record["target"])
        if place not in benches:
            benches.clear()  # cases of one place stand together; one analysis at a time
            benches[place] = Bench.make(*place)
        priced.append(_repriced(record, benches[place]))
    write_records(path, priced)
    stale = sum(record["stale"] for record in priced)
    return len(priced) - stale, stale


def _repriced(record: Record, bench: Bench) -> Record:
    state = state_of(record["state"])
    try:
        if digest(bench.write(state)) != record["module"]:
            return record | {"stale": True}
    except (IndexError, KeyError, ToastError):  # the state speaks of another analysis
        return record | {"stale": True}
    return record | {"predicted": bench.predict(state), "stale": False}


def _line(record: Record) -> str:
    if "error" in record:
        return str(record["error"])
    verdict = Verdict.from_dict(record["compiled"])
    predicted = record["predicted"]["peak_bytes"] / 2**20
    needed = verdict.needed_bytes
    compiled = "unknown" if needed is None else f"{needed / 2**20:.0f}"
    refused = " (refused)" if verdict.refusal else ""
    return (
        f"{predicted:.0f} MiB predicted, {compiled} compiled{refused}, "
        f"{verdict.compile_seconds:.0f} s"
    )
