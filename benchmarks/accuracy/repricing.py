"""Price the states of all cases again, with the cost model as it is now; nothing is compiled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.cases import Bench, digest, state_of
from benchmarks.accuracy.records import Record, read_records, write_records
from toast.analysis.errors import ToastError


def reprice(path: Path, *, check: bool = True, left_out: Sequence[str] = ()) -> tuple[int, int]:
    """Price all states of a file again; (repriced, stale) cases.

    A case whose module would be written differently today is stale: reports leave it out, and the
    next run compiles it again. Without `check` that is not asked, which is several times as fast
    and enough while only prices change. Passes that are `left_out` the compiler is taken not to do.
    """
    records = read_records(path)
    places: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        places[(record["model"], record["mesh"], record["target"])].append(number)
    for place, numbers in places.items():
        bench = Bench.make(*place, left_out)
        for number in numbers:
            records[number] = _repriced(records[number], bench, check=check)
    write_records(path, records)
    stale = sum(bool(record.get("stale")) for record in records)
    return len(records) - stale, stale


def _repriced(record: Record, bench: Bench, *, check: bool) -> Record:
    state = state_of(record["state"])
    try:
        if check and digest(bench.write(state)) != record["module"]:
            return record | {"stale": True}
        predicted = bench.predict(state)
    except (IndexError, ToastError):  # the state speaks of another analysis
        return record | {"stale": True}
    fresh = {"stale": False} if check else {}
    return record | {"predicted": predicted} | fresh
