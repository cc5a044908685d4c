"""Plans a program with `--fit`, writes it by hand, and asks the compiler of both."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator

from benchmarks.accuracy.cases import Bench
from benchmarks.accuracy.records import Record
from benchmarks.fit.by_hand import POLICIES, Policy
from benchmarks.fit.programs import Program
from benchmarks.planners.layouts import choices, named
from toast.aot import Target, judge
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest

TARGET = "tpu-v5e:2x4"
OURS = "toast --fit"
HANDS = {1: ("fsdp", "data"), 2: ("fsdp", "data+megatron", "fsdp+megatron")}
"""Layouts by hand for meshes of so many axes; the one of least price is compiled."""
PARTS = (1, 2, 4, 8, 16, 32)


def cases(name: str, program: Program, known: set[str]) -> Iterator[Record]:
    """A record for what `--fit` writes and for each policy by hand, compiled, less the known."""
    if f"{name} {OURS}" not in known:
        yield {"key": f"{name} {OURS}", "program": name, "how": OURS, **planned(program)}
    for policy in POLICIES if program.by_hand else ():
        key = f"{name} {policy} by hand"
        if key not in known:
            yield {"key": key, "program": name, "how": policy, **written(program, policy)}


def planned(program: Program) -> Record:
    """What `toast plan --fit` finds, and what the compiler makes of its module."""
    request = PlanRequest(mesh=program.mesh, threads=1, fit=True, advice=False)
    clock = time.monotonic()
    made = make_plan(program.module(), request)
    seconds = time.monotonic() - clock
    plan = made.plan
    found = plan.time or plan.recompute
    tried = [] if found is None else [row.model_dump(mode="json") for row in found.tried]
    chosen = next((row for row in tried if row["chosen"]), {})
    return {
        "microbatches": chosen.get("microbatches", 1),
        "recompute": chosen.get("recompute", ""),
        "plan_seconds": seconds,
        "tried": tried,
        "predicted": {
            "compute_seconds": plan.predicted.compute_seconds,
            "communication_seconds": plan.predicted.communication_seconds,
            "peak_bytes": plan.predicted.peak_bytes,
            "fits": plan.predicted.fits,
        },
        "compiled": compiled(made.module, Mesh.parse(program.mesh)),
    }


def written(program: Program, policy: Policy) -> Record:
    """The program by hand: the fewest parts at which a layout fits, and its fastest layout."""
    assert program.by_hand is not None
    for parts in PARTS:
        bench = Bench.of(program.by_hand(policy, parts), program.mesh, TARGET)
        axes = [axis.name for axis in bench.evaluator.mesh.axes]
        layouts = {
            name: named(bench.problem, choices(program.family, name, axes))[0]
            for name in HANDS[len(axes)]
        }
        found = [(name, state, bench.predict(state)) for name, state in layouts.items()]
        fitting = [row for row in found if row[2]["fits"]]
        if fitting or parts == PARTS[-1]:
            break
    name, state, predicted = min(fitting or found, key=lambda row: seconds_of(row[2]))
    return {
        "microbatches": parts,
        "recompute": policy,
        "layout": name,
        "predicted": {key: value for key, value in predicted.items() if key != "collectives"},
        "compiled": compiled(bench.write(state), bench.evaluator.mesh),
    }


def compiled(module: bytes, mesh: Mesh) -> Record | None:
    """What the compiler makes of a module, where there is one."""
    if importlib.util.find_spec("libtpu") is None:
        return None
    return judge(module, Target.parse(TARGET), mesh).to_dict()


def seconds_of(predicted: Record) -> float:
    """Computation and then collectives."""
    return float(predicted["compute_seconds"] + predicted["communication_seconds"])
