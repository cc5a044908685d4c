"""Plan and compile the cases that are not done yet, one at a time, each kept as a line of JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from benchmarks.accuracy.cases import Bench, digest, plain
from benchmarks.accuracy.records import Record, read_records
from benchmarks.accuracy.running import judged, run_new
from benchmarks.accuracy.schedule import Case
from benchmarks.planners import peer
from benchmarks.planners.cases import MANUAL, OURS, PEERS, REFINED
from benchmarks.planners.layouts import layout
from benchmarks.planners.models import models
from toast.aot import Target
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels

PLAN_SECONDS = 60.0
"""No other planner searches longer; what it has by then is its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds that a compile and that the peer, whose planner is in its compiler, may take.

    With `memory_only` a TPU's compiler is ended once it has laid memory out, which takes seconds
    where code takes an hour: a plan is then known to fit or not, and has no time.
    """

    compile: float = 300.0
    peer: float = 400.0
    memory_only: bool = False


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs cases; keeps the last program, and what the compiler said of all modules so far."""

    limits: Limits
    hlo: Path | None = None
    verdicts: dict[tuple[str, str], Record] = field(default_factory=dict)
    _model: str = ""
    _bytes: bytes = b""

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
        found, module = self._planned(case)
        record |= found | {
            "module": digest(module),
            "versions": {name: metadata.version(name) for name in ("jax", "jaxlib")},
        }
        return record | self._judged(case, module, record["module"])

    def _planned(self, case: Case) -> tuple[Record, bytes]:
        """What is known of a plan, and the sharded module."""
        model = models()[case.model]
        module = self._module(case.model)
        if not case.plan.startswith(MANUAL):
            return by_planner(module, case)
        bench = Bench.of(module, case.mesh, case.target)
        state = layout(bench.problem, model.family, case.plan.removeprefix(MANUAL))
        found = {"state": plain(state), "predicted": bench.predict(state), "plan_seconds": None}
        return found, bench.write(state)

    def _judged(self, case: Case, module: bytes, name: str) -> Record:
        """The verdict on a module, which is compiled where no case had the same."""
        known = self.verdicts.get((case.target, name))
        if known is not None:
            return {"same_as": known["key"], "compiled": known["compiled"]}
        found = judged(
            module,
            case.key,
            Mesh.parse(case.mesh),
            hlo=self.hlo,
            deadline_s=self.limits.compile,
            memory_only=self.limits.memory_only,
        )
        if "compiled" in found:
            self.verdicts[case.target, name] = {"key": case.key} | found
        return found

    def _module(self, model: str) -> bytes:
        """The bare module of a program; the last one is kept."""
        if self._model != model:
            self._model, self._bytes = model, models()[model].module()
        return self._bytes


def by_planner(module: bytes, case: Case) -> tuple[Record, bytes]:
    """What a planner makes of a module, as a user would ask for it; ours has no bound on time."""
    ours = case.plan in (OURS, REFINED)
    request = PlanRequest(
        mesh=case.mesh,
        device=Target.parse(case.target).chip.device,
        planner=OURS if ours else case.plan,
        refine=case.plan == REFINED,
        threads=1,
        budget=None if ours else PLAN_SECONDS,
    )
    result = make_plan(module, request)
    plan = result.plan
    spent = sum(seconds for stage, seconds in plan.stages.items() if stage != "kernels")
    predicted = plan.predicted.model_dump() | {
        "collectives": [row.model_dump() for row in plan.collectives]
    }
    found = {
        "plan_seconds": spent,
        "termination": plan.search.termination,
        "decisions": [[one.colour, one.axis] for one in plan.decisions],
        "predicted": predicted,
    }
    return found, result.module


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

    A module that some case has compiled before is not compiled again. What was compiled for its
    memory alone is not done for any other run.
    """
    warm_kernels()
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in read_records(path)]
    if not limits.memory_only:
        rows = [row for row in rows if not row.get("compiled", {}).get("memory_only")]
    verdicts = {
        (row["target"], row["module"]): row for row in rows if "compiled" in row and "module" in row
    }
    kept = (row for row in rows if row["plan"] not in again)
    done = {row["key"] for row in kept if not (failed and "error" in row)}
    runner = Runner(limits=limits, hlo=hlo, verdicts=verdicts)
    return run_new(cases, folder, done, runner.run, limit=limit, seconds=seconds)
