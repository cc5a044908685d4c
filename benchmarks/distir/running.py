"""Simulates and executes all ways of a program; a record for each."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.distir.grid import DEVICES, Way, parse_way, ways
from benchmarks.distir.planning import Simulated, simulate_way
from benchmarks.distir.programs import programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A way of a program: what is predicted, and the seconds of each run."""

    program: str
    way: Way
    simulated: Simulated
    runs: tuple[float, ...]

    @property
    def executed(self) -> float:
        """The median of the runs, in seconds."""
        return median(self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All records, and under what they were measured."""

    day: str
    load: tuple[float, ...]
    records: tuple[Record, ...]


def run(name: str, device: Path, rounds: int, wanted: Sequence[Way] | None = None) -> Measured:
    """Plan and simulate the ways of a program, then run them all in turn, round by round."""
    program = programs()[name]
    chosen = list(ways(program.batch, program.layers)) if wanted is None else list(wanted)
    with tempfile.TemporaryDirectory(prefix="toast-distir-") as folder:
        simulated = {}
        for way in chosen:
            simulated[way] = simulate_way(program, way, str(device), Path(folder) / _file(way))
            print(f"{name}, {way}: {simulated[way].seconds:.3f} s simulated", file=sys.stderr)
        seconds, load = _execute(name, Path(folder), rounds)
    records = (
        Record(program=name, way=way, simulated=one, runs=tuple(seconds[_file(way)]))
        for way, one in simulated.items()
    )
    day = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return Measured(day=day, load=load, records=tuple(records))


def _file(way: Way) -> str:
    return str(way).replace("/", "-")


def _execute(
    name: str, folder: Path, rounds: int
) -> tuple[dict[str, list[float]], tuple[float, ...]]:
    """The seconds of every run by way, and the load of the machine at the end."""
    flags = os.environ.get("XLA_FLAGS", "")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.distir.executing", name, str(folder), str(rounds)],
        env=os.environ
        | {
            "JAX_PLATFORMS": "cpu",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={DEVICES}".strip(),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return found["seconds"], tuple(found["load"])


def write_records(path: Path, measured: Measured) -> None:
    """Keep what was measured as one file of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = dataclasses.asdict(measured)
    for row, record in zip(document["records"], measured.records, strict=True):
        row["way"] = str(record.way)
        row["runs"] = [round(one, 5) for one in record.runs]
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_records(data: Path) -> Iterator[Measured]:
    """All that is kept in a folder, in the order of the programs."""
    kept = [_read(json.loads(path.read_text(encoding="utf-8"))) for path in data.glob("*.json")]
    order = {name: number for number, name in enumerate(programs())}
    yield from sorted(kept, key=lambda one: order[one.records[0].program])


def _read(document: dict[str, Any]) -> Measured:
    records = (
        Record(
            program=row["program"],
            way=parse_way(row["way"]),
            simulated=Simulated(**row["simulated"]),
            runs=tuple(row["runs"]),
        )
        for row in document["records"]
    )
    return Measured(day=document["day"], load=tuple(document["load"]), records=tuple(records))
