"""Compile the cases that are not done yet, one at a time, and keep each as a line of JSON."""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from importlib import metadata
from pathlib import Path

from benchmarks.accuracy.cases import Bench, digest, plain
from benchmarks.accuracy.records import Record, append_record, read_records
from benchmarks.accuracy.schedule import Case
from toast.analysis.errors import InvalidRequest, ToastError
from toast.aot import Target, Verdict, judge
from toast.costmodel.network.mesh import Mesh

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
    done, modules = _done(folder)
    benches: dict[tuple[str, str, str], Bench] = {}

    def run(case: Case) -> Record:
        record = run_case(case, _bench(benches, case), modules, hlo)
        modules.setdefault((case.target, record["module"]), case.key)
        return record

    return run_new(cases, folder, done, run, limit=limit, seconds=seconds)


def run_new(
    cases: Iterable[Case],
    folder: Path,
    done: Collection[str],
    run: Callable[[Case], Record],
    *,
    limit: int | None = None,
    seconds: float | None = None,
) -> int:
    """Run the cases whose keys are not `done` and keep each as a line of its file.

    No case is started after `limit` of them were compiled, or after so many seconds. Returns how
    many were compiled, which those that are the `same_as` another are not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started, count = time.monotonic(), 0
    for case in cases:
        late = seconds is not None and time.monotonic() - started > seconds
        if late or (limit is not None and count >= limit):
            break
        if case.key in done:
            continue
        record = run(case)
        append_record(folder / case.file, record)
        count += "same_as" not in record
        print(f"{count:3d} {case.key}: {summary_line(record)}", file=sys.stderr, flush=True)
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
    return record | judged(module, case.key, bench.evaluator.mesh, hlo=hlo)


def hlo_name(case_key: str) -> str:
    """Where the compiled text of a case is kept, below the directory of all."""
    name, _, target = case_key.rpartition(" ")
    return f"{target}/{name.replace(' ', '_')}.hlo.gz"


def keep_text(text: str, key: str, hlo: Path) -> None:
    """Keep the compiled text of a case, gzipped."""
    kept = hlo / hlo_name(key)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(gzip.compress(text.encode(), 6))


def judged(
    module: bytes,
    key: str,
    mesh: Mesh,
    *,
    hlo: Path | None = None,
    deadline_s: float = 900.0,
    memory_only: bool = False,
    reserved_bytes: int = 0,
) -> Record:
    """What the compiler makes of a module, as `compiled`, or why it made nothing, as `error`.

    The last word of `key` is the target; `hlo` keeps the text as `run_cases` does. With
    `memory_only` a TPU's compiler is ended once it has laid memory out; `reserved_bytes` of the
    memory are taken. Raises InvalidRequest where the compiler for the target is not there: it is
    not for the next case.
    """
    target = Target.parse(key.rpartition(" ")[2])
    with tempfile.TemporaryDirectory(prefix="toast-accuracy-") as name:
        text = Path(name) / "compiled.hlo"
        try:
            verdict = judge(
                module,
                target,
                mesh,
                memory_only=memory_only and target.chip.platform == "tpu",
                reserved_bytes=reserved_bytes,
                deadline_s=deadline_s,
                keep_hlo=text,
            )
        except InvalidRequest:
            raise
        except ToastError as error:
            return {"error": f"{error.code}: {error.message}"}
        if hlo is not None and text.exists():
            keep_text(text.read_text(), key, hlo)
    return {"compiled": verdict.to_dict()}


def summary_line(record: Record) -> str:
    """What became of a case, in a line."""
    if "error" in record:
        return str(record["error"])
    if "same_as" in record:
        return f"the same module as {record['same_as']}"
    verdict = Verdict.from_dict(record["compiled"])
    peak = record.get("predicted", {}).get("peak_bytes")
    predicted = "" if peak is None else f"{peak / 2**20:.0f} MiB predicted, "
    needed = verdict.needed_bytes
    compiled = "unknown" if needed is None else f"{needed / 2**20:.0f}"
    refused = " (refused)" if verdict.refusal else ""
    return f"{predicted}{compiled} MiB compiled{refused}, {verdict.compile_seconds:.0f} s"
