"""Times `make_plan` on each case and keeps the seconds of each stage, a line of JSON a case."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.records import append_record, read_records
from benchmarks.scaling.cases import Case, cases
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Plan
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels
from toast.search.progress import Progress


def run(
    data: Path, modules: Path, *, sweeps: Sequence[str] | None, repeats: int, seconds: float | None
) -> int:
    """Do what is not done yet, starting nothing after `seconds`; returns how many cases."""
    done = {record["key"] for record in read_records(data)}
    todo = [
        case
        for case in cases()
        if case.key not in done and (sweeps is None or case.sweep in sweeps)
    ]
    if not todo:
        return 0
    warm_kernels()
    started = time.perf_counter()
    _plan(todo[0], todo[0].bytes(modules), Clock())  # loads what is loaded once in a process
    for count, case in enumerate(todo):
        if seconds is not None and time.perf_counter() - started > seconds:
            return count
        module = case.bytes(modules)
        append_record(data, record_of(case, module, repeats))
        print(case.key, file=sys.stderr)
    return len(todo)


class Clock:
    """Seconds that the process computes in each stage of a job, whatever else the machine does."""

    def __init__(self) -> None:
        self._stage, self._entered = "", time.process_time()
        self.seconds: dict[str, float] = {}

    def watch(self, progress: Progress) -> None:
        """A stage ends where the next one begins."""
        if progress.stage != self._stage:
            self.enter(progress.stage)

    def enter(self, stage: str) -> None:
        """End the stage there is, if any."""
        now = time.process_time()
        if self._stage:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._entered
        self._stage, self._entered = stage, now


def record_of(case: Case, module: bytes, repeats: int) -> dict[str, Any]:
    """Plan a case `repeats` times: all seconds of every stage, and what was planned."""
    runs, walls, plan = [], [], None
    for _ in range(repeats):
        clock, started = Clock(), time.perf_counter()
        plan = _plan(case, module, clock)
        clock.enter("")
        walls.append(round(time.perf_counter() - started, 4))
        runs.append(clock.seconds)
    assert plan is not None
    baseline = next(iter(plan.baselines), None)
    return {
        "key": case.key,
        "sweep": case.sweep,
        "form": "scanned" if case.scan else "unrolled",
        "layers": case.layers,
        "seq": case.seq,
        "mesh": case.mesh,
        "devices": case.devices,
        "ops": plan.module.ops,
        "evaluations": plan.search.evaluations,
        "step_seconds": plan.predicted.step_seconds,
        "peak_bytes": plan.predicted.peak_bytes,
        "fits": plan.predicted.fits,
        "data_parallel": None
        if baseline is None
        else {"step_seconds": baseline.step_seconds, "fits": baseline.fits},
        "python": platform.python_version(),
        "wall": walls,
        "seconds": {name: [round(one[name], 4) for one in runs] for name in runs[0]},
    }


def _plan(case: Case, module: bytes, clock: Clock) -> Plan:
    request = PlanRequest(mesh=case.mesh, device=case.device, threads=1)
    return make_plan(module, request, on_progress=clock.watch).plan
