"""Price the states of all cases again, with the cost model as it is now; nothing is compiled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from benchmarks.accuracy.cases import Bench, digest, state_of
from benchmarks.accuracy.records import Record, read_records, write_records
from benchmarks.zoo.cases import AMPLE
from benchmarks.zoo.lowering import MODULES, module_of, path_of
from benchmarks.zoo.prices import predict
from benchmarks.zoo.sizing import module_at
from toast.analysis.errors import ToastError

Place = tuple[str, str, str, int]


def reprice(
    path: Path,
    *,
    check: bool = False,
    modules: Path = MODULES,
    wanted: Callable[[Record], bool] = lambda _: True,
) -> tuple[int, int]:
    """Price the states of a file again; (repriced, left) cases.

    A program that has no module here is left as it is. With `check` a case whose module would be
    written differently today is stale: reports leave it out, and the next run compiles it again.
    """
    records = read_records(path)
    places: defaultdict[Place, list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        if "predicted" in record and wanted(record):
            batch = int(record.get("batch", 0))
            places[(record["model"], record["mesh"], record["target"], batch)].append(number)
    count = 0
    for place, numbers in places.items():
        if not path_of(place[0], modules).exists():
            continue
        bench = _bench(place, records[numbers[0]], modules)
        for number in numbers:
            records[number] = _repriced(records[number], bench, check=check)
            count += 1
    write_records(path, records)
    return count, sum("predicted" in record for record in records) - count


def _bench(place: Place, record: Record, modules: Path) -> Bench | None:
    """The program at the batch of a record; None where that cannot be had any more."""
    program, mesh, target, batch = place
    module = module_of(program, modules)
    try:
        if batch:
            module = module_at(module, tuple(record["dimension"]), batch)
        return Bench.of(module, mesh, target, room=AMPLE)
    except ToastError:
        return None


def _repriced(record: Record, bench: Bench | None, *, check: bool) -> Record:
    if bench is None:
        return record | {"stale": True}
    state = state_of(record["state"])
    try:
        if check and digest(bench.write(state)) != record["module"]:
            return record | {"stale": True}
        predicted = predict(bench, state)
    except (IndexError, ToastError):  # the state speaks of another analysis
        return record | {"stale": True}
    fresh = {"stale": False} if check else {}
    return record | {"predicted": predicted} | fresh
