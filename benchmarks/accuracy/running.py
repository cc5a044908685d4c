"""Compile the cases that are not done yet, one at a time, and keep each as a line of JSON."""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from analysis.errors import ToastError
from benchmarks.accuracy.cases import Bench, digest, plain
from benchmarks.accuracy.records import Record, append_record, read_records
from benchmarks.accuracy.schedule import Case
from toast.judge import Target, Verdict, judge

BENCHES = 24


def run_cases(
    cases: Iterable[Case],
    folder: Path,
    *,
    limit: int | None = None,
    seconds: float | None = None,
    hlo: Path | None = None,
) -> int:
    """Run what has no line in `folder` yet; returns how many were compiled.

    A state whose module another case of its file has compiled already is noted as the `same_as`
    that one. `hlo` keeps the compiled texts, gzipped, in a directory a target.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done, modules = _done(folder)
    benches: dict[tuple[str, str, str], Bench] = {}
    started, count = time.monotonic(), 0
    for case in cases:
        late = seconds is not None and time.monotonic() - started > seconds
        if late or (limit is not None and count >= limit):
            break
        if case.key in done:
            continue
        record = run_case(case, _bench(benches, case), modules, hlo)
        modules.setdefault((case.target, record["module"]), case.key)
        append_record(folder / case.file, record)
        count += "same_as" not in record
        print(f"{count:3d} {case.key}: {_line(record)}", file=sys.stderr, flush=True)
    return count


def _done(folder: Path) -> tuple[set[str], dict[tuple[str, str], str]]:
    """The keys of the cases that need not be run, and those of the compiled modules."""
    records = [row for path in sorted(folder.glob("*.jsonl")) for row in read_records(path)]
    fresh = [row for row in records if not row.get("stale")]
    compiled = [row for row in fresh if "compiled" in row]
    modules = {(row["target"], row["module"]): row["key"] for row in compiled}
    return {row["key"] for row in fresh}, modules


def _bench(benches: dict[tuple[str, str, str], Bench], case: Case) -> Bench:
    """The analysed model of a case, among the last few that were asked for."""
    place = (case.model, case.mesh, case.target)
    found = benches.pop(place, None) or Bench.make(*place)
    benches[place] = found
    if len(benches) > BENCHES:
        del benches[next(iter(benches))]
    return found


def run_case(
    case: Case, bench: Bench, modules: dict[tuple[str, str], str], hlo: Path | None
) -> Record:
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
    other = modules.get((case.target, record["module"]))
    if other is not None and other != case.key:
        return record | {"same_as": other}
    try:
        verdict = _judged(module, case, bench, hlo)
    except ToastError as error:
        return record | {"error": f"{error.code}: {error.message}"}
    return record | {"compiled": verdict.to_dict()}


def hlo_name(case_key: str) -> str:
    """Where the compiled text of a case is kept, below the directory of all."""
    name, _, target = case_key.rpartition(" ")
    return f"{target}/{name.replace(' ', '_')}.hlo.gz"


def _judged(module: bytes, case: Case, bench: Bench, hlo: Path | None) -> Verdict:
    target = Target.parse(case.target)
    with tempfile.TemporaryDirectory(prefix="toast-accuracy-") as name:
        text = Path(name) / "compiled.hlo"
        verdict = judge(module, target, bench.evaluator.mesh, deadline_s=900.0, keep_hlo=text)
        if hlo is not None and text.exists():
            kept = hlo / hlo_name(case.key)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(gzip.compress(text.read_bytes(), 6))
    return verdict


def _line(record: Record) -> str:
    if "error" in record:
        return str(record["error"])
    if "same_as" in record:
        return f"the same module as {record['same_as']}"
    verdict = Verdict.from_dict(record["compiled"])
    predicted = record["predicted"]["peak_bytes"] / 2**20
    needed = verdict.needed_bytes
    compiled = "unknown" if needed is None else f"{needed / 2**20:.0f}"
    refused = " (refused)" if verdict.refusal else ""
    return (
        f"{predicted:.0f} MiB predicted, {compiled} compiled{refused}, "
        f"{verdict.compile_seconds:.0f} s"
    )
