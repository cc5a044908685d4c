"""The process that plans and compiles some cases of one program for one target."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cases import Bench, digest, plain, state_of
from benchmarks.accuracy.records import Record, append_record, read_records
from benchmarks.accuracy.running import judged, summary_line
from benchmarks.zoo.cases import AMPLE, Case
from benchmarks.zoo.lowering import module_of
from benchmarks.zoo.prices import predict
from benchmarks.zoo.sizing import resized
from benchmarks.zoo.split import half_by_name
from toast.analysis.errors import InvalidRequest, ToastError
from toast.aot import Memory, Target, Verdict
from toast.costmodel.hardware.devices import find

TINY = 64 * 2**20
"""Temporaries of so few bytes are not pressed."""
NO_COMPILER = 3
"""The exit code where the compiler for the target is not installed."""


@dataclass(slots=True, kw_only=True)
class Work:
    """The cases of one program for one target; benches by mesh and batch."""

    folder: Path
    memory_only: bool
    seconds_each: float
    hlo: Path | None = None
    benches: dict[tuple[str, float], Bench] = field(default_factory=dict)
    known: dict[str, Record] = field(default_factory=dict)

    def run(self, case: Case) -> Record:
        """The record of a case; why there is nothing to compile is one too."""
        about = {
            "key": case.key,
            "model": case.program,
            "mesh": case.mesh,
            "plan": case.plan,
            "target": case.target,
        }
        try:
            found = self._pressed(case) if case.level else self._compiled(case)
        except (ToastError, OSError) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        late = {"seconds_each": self.seconds_each} if "error" in found else {}
        return about | found | late

    def _compiled(self, case: Case) -> Record:
        bench, batch = self._bench(case)
        state = bench.state(case.plan)
        module = bench.write(state)
        return {
            **batch,
            "state": plain(state),
            "module": digest(module),
            "predicted": predict(bench, state),
            "versions": {name: metadata.version(name) for name in ("jax", "jaxlib")},
        } | self._judged(case, bench, module)

    def _pressed(self, case: Case) -> Record:
        """The plan of the case with room, with little memory left for temporaries."""
        room = self.known[case.room.key]
        memory = Verdict.from_dict(room["compiled"]).memory
        reserved = None if memory is None else reserved_bytes(memory, case.target, case.level)
        if reserved is None:
            return {"skipped": "it has hardly any temporaries, or does not fit with room"}
        bench, _ = self._bench(case)
        module = bench.write(state_of(room["state"]))
        return {"reserved_bytes": reserved} | self._judged(case, bench, module, reserved)

    def _bench(self, case: Case) -> tuple[Bench, Record]:
        about: Record = {}
        place = (case.mesh, case.share)
        if place not in self.benches:
            module = module_of(case.program)
            bench = Bench.of(module, case.mesh, case.target, room=AMPLE)
            if case.share:
                room = self.known.get(case.room.key, {})
                module, about = resized(bench, room, case.share, self._sized(case))
                bench = Bench.of(module, case.mesh, case.target, room=AMPLE)
            self.benches[place] = bench
        return self.benches[place], about

    def _sized(self, case: Case) -> list[Record]:
        """The records of the same program and plan at other batches."""
        rows = (row for row in self.known.values() if "batch" in row and "compiled" in row)
        return [row for row in rows if Case.parse(row["key"]).room == case.room]

    def _judged(self, case: Case, bench: Bench, module: bytes, reserved: int = 0) -> Record:
        held = half_by_name(case.program.partition("/")[0]) == "held-out"
        try:
            return judged(
                module,
                case.key,
                bench.evaluator.mesh,
                hlo=None if held else self.hlo,
                deadline_s=self.seconds_each,
                memory_only=self.memory_only,
                reserved_bytes=reserved,
            )
        except InvalidRequest as error:  # it is not there for the next case either
            print(f"{error.message} {error.hint}", file=sys.stderr)
            raise SystemExit(NO_COMPILER) from error


def reserved_bytes(memory: Memory, target: str, level: float) -> int | None:
    """What to take from a chip so that `level` of the temporaries' memory is left for them."""
    if memory.main is None:
        return None
    held = memory.argument + memory.output - memory.alias
    temporaries = memory.main - held
    if temporaries < TINY:
        return None
    usable = find(Target.parse(target).chip.device).usable_bytes
    return max(int(usable - held - level * temporaries), 0) or None


def main(job: dict[str, Any]) -> int:
    """Work through the cases of a job and keep each as it is done; returns the exit code."""
    folder = Path(job["folder"])
    work = Work(
        folder=folder,
        memory_only=bool(job["memory_only"]),
        seconds_each=float(job["seconds_each"]),
        hlo=Path(job["hlo"]) if job.get("hlo") else None,
    )
    for key in job["keys"]:
        case = Case.parse(key)
        if not work.known:
            work.known = {row["key"]: row for row in read_records(folder / case.file)}
        if case.key != case.room.key and "compiled" not in work.known.get(case.room.key, {}):
            continue  # nothing is known yet of what it needs with room
        record = work.run(case)
        append_record(folder / case.file, record)
        work.known[key] = record
        said = record.get("skipped") or record.get("error") or summary_line(record)
        print(f"{key}: {said}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
