"""Plan and compile the cases that are not done yet, one at a time, each kept as a line of JSON."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from benchmarks.accuracy.cases import Bench, digest, plain
from benchmarks.accuracy.records import Record, read_records
from benchmarks.accuracy.running import judged, run_new
from benchmarks.accuracy.schedule import Case
from benchmarks.planners import peer
from benchmarks.planners.cases import MANUAL, PEERS
from benchmarks.planners.layouts import layout
from benchmarks.planners.models import models
from costmodel.evaluator import State
from costmodel.mesh import Mesh
from examples.forms import serialize
from search.planners import PLANNERS
from search.problem import Settings
from search.progress import Control
from search.warm import warm_kernels

PLAN_SECONDS = 120.0
"""No planner takes longer; what it has by then is its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds that a compile and that the peer, whose planner is in its compiler, may take."""

    compile: float = 300.0
    peer: float = 400.0


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs cases; keeps the analysed program of the last one, and what is known of modules."""

    limits: Limits
    hlo: Path | None = None
    verdicts: dict[tuple[str, str], Record] = field(default_factory=dict)
    _place: tuple[str, str, str] | None = None
    _bench: Bench | None = None
    _seconds: float = 0.0

    def run(self, case: Case) -> Record:
        """One case as a record; what fails or does not finish is one too."""
        record: Record = {
            "key": case.key,
            "model": case.model,
            "mesh": case.mesh,
            "plan": case.plan,
            "target": case.target,
        }
        if case.plan in PEERS:
            return record | peer.compiled(case, self.limits.peer, self.hlo)
        bench, analysed = self._analysed(case)
        started = time.perf_counter()
        state, why = planned(bench, case)
        seconds = analysed + time.perf_counter() - started
        module = bench.write(state)
        record |= {
            "plan_seconds": None if case.plan.startswith(MANUAL) else seconds,
            "termination": why,
            "state": plain(state),
            "module": digest(module),
            "predicted": bench.predict(state),
            "versions": {name: metadata.version(name) for name in ("jax", "jaxlib")},
        }
        return record | self._judged(case, module, record["module"], bench.evaluator.mesh)

    def _judged(self, case: Case, module: bytes, name: str, mesh: Mesh) -> Record:
        """The verdict on a module, which is compiled where no case had the same."""
        known = self.verdicts.get((case.target, name))
        if known is not None:
            return {"same_as": known["key"], "compiled": known["compiled"]}
        found = judged(module, case.key, mesh, hlo=self.hlo, deadline_s=self.limits.compile)
        if "compiled" in found:
            self.verdicts[case.target, name] = {"key": case.key} | found
        return found

    def _analysed(self, case: Case) -> tuple[Bench, float]:
        """The program of a case, and the seconds from its bytes to where a search can start."""
        place = (case.model, case.mesh, case.target)
        if self._bench is None or self._place != place:
            module = serialize(models()[case.model].make(), "bytecode")
            started = time.perf_counter()
            self._bench, self._place = Bench.of(module, case.mesh, case.target), place
            self._seconds = time.perf_counter() - started
        return self._bench, self._seconds


def planned(bench: Bench, case: Case) -> tuple[State, str]:
    """The state of a plan, and why its search ended."""
    if case.plan.startswith(MANUAL):
        family = models()[case.model].family
        return layout(bench.problem, family, case.plan.removeprefix(MANUAL)), "by hand"
    control = Control(budget=PLAN_SECONDS)
    found = PLANNERS[case.plan](bench.problem, Settings(seed=0, threads=1), control)
    return found.state, found.termination


def run_cases(
    cases: Iterable[Case],
    folder: Path,
    *,
    limits: Limits,
    limit: int | None = None,
    seconds: float | None = None,
    hlo: Path | None = None,
    again: Collection[str] = (),
    failed: bool = False,
) -> int:
    """Run what has no line in `folder` yet; returns how many were compiled.

    So are the plans named `again`, and with `failed` what failed or did not finish.

    A module that some case has compiled before is not compiled again.
    """
    warm_kernels()
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in read_records(path)]
    verdicts = {
        (row["target"], row["module"]): row for row in rows if "compiled" in row and "module" in row
    }
    kept = (row for row in rows if row["plan"] not in again)
    done = {row["key"] for row in kept if not (failed and "error" in row)}
    runner = Runner(limits=limits, hlo=hlo, verdicts=verdicts)
    return run_new(cases, folder, done, runner.run, limit=limit, seconds=seconds)
