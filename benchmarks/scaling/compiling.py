"""Plans for whole pods compiled by the TPU's compiler: what was predicted and what came out."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.accuracy.records import append_record, read_records
from toast.analysis.forms import bytecode
from toast.aot.compile import judge
from toast.aot.target import Target
from toast.aot.verdict import Verdict
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Plan
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Two layers of Gemma-2B with `batch` sequences of 2,048 tokens on a whole topology."""

    target: str
    mesh: str
    batch: int

    @property
    def device(self) -> str:
        """The chip's name in the catalogue."""
        return Target.parse(self.target).chip.device

    def module(self) -> bytes:
        """The training step."""
        from examples import gemma

        config = replace(gemma.PRESETS["gemma_2b"], layers=2, batch=self.batch)
        return bytecode(gemma.lower(config).compiler_ir("stablehlo"))


PODS = (
    Pod(target="tpu-v5e:16x16", mesh="data=16,model=16", batch=256),
    Pod(target="tpu-v5p:16x16x16", mesh="data=16,seq=16,model=16", batch=1_024),
)


def compile_pods(data: Path, hlo: Path | None = None) -> int:
    """Plan and compile what is not done yet, and keep the HLO in a folder if asked."""
    done = {record["key"] for record in read_records(data)}
    todo = [pod for pod in PODS if pod.target not in done]
    if todo:
        warm_kernels()
    for pod in todo:
        append_record(data, record_of(pod, hlo))
        print(pod.target, file=sys.stderr)
    return len(todo)


def record_of(pod: Pod, hlo: Path | None) -> dict[str, Any]:
    """Plan a pod's module, compile what was written, and set one beside the other."""
    started = time.perf_counter()
    made = make_plan(pod.module(), PlanRequest(mesh=pod.mesh, device=pod.device))
    planned = time.perf_counter()
    keep = None if hlo is None else hlo / f"{pod.target.replace(':', '_')}.hlo"
    verdict = judge(
        made.module, Target.parse(pod.target), Mesh.parse(pod.mesh), deadline_s=None, keep_hlo=keep
    )
    return {
        "key": pod.target,
        "mesh": pod.mesh,
        "batch": pod.batch,
        "devices": verdict.devices,
        "plan_seconds": planned - started,
        "judge_seconds": time.perf_counter() - planned,
        "compile_seconds": verdict.compile_seconds,
        "predicted": {
            "peak_bytes": made.plan.predicted.peak_bytes,
            "compute_seconds": made.plan.predicted.compute_seconds,
            "step_seconds": made.plan.predicted.step_seconds,
            "collectives": _predicted(made.plan),
        },
        "compiled": {
            "refused": None if verdict.refusal is None else verdict.refusal.message,
            "peak_bytes": verdict.needed_bytes,
            "compute_seconds": verdict.compute_seconds,
            "collectives": _compiled(verdict),
        },
    }


def _predicted(plan: Plan) -> dict[str, list[float]]:
    """Count and bytes on the wire of one device, by kind and axes."""
    return {
        _name(row.kind, row.axes): [float(row.count), float(row.bytes)] for row in plan.collectives
    }


def _compiled(verdict: Verdict) -> dict[str, list[float]]:
    """The same of the compiled program; groups that are no product of axes by their size."""
    found: dict[str, list[float]] = {}
    for row in verdict.collectives:
        axes = (f"groups of {row.group_size}",) if row.axes is None else row.axes
        sums = found.setdefault(_name(row.kind, axes), [0.0, 0.0])
        sums[0] += row.count
        sums[1] += row.wire_bytes
    return found


def _name(kind: str, axes: Sequence[str]) -> str:
    return f"{kind.replace('_', '-')} over {', '.join(sorted(axes))}"
