"""The process that proves cases of one model: `python -m benchmarks.proof.child DATA KEY...`.

XLA may end it at any of them, so each case is announced as it begins. What cases of a model have
in common is done once: the module is lowered once, an original of the same scaled-down sizes is
compiled and run once, and of two plans that are written alike one is compared.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax

from benchmarks.accuracy.records import Record, read_records
from benchmarks.proof import checker
from benchmarks.proof.cases import Case, module_of
from toast.analysis.errors import ToastError
from toast.analysis.forms import digest
from toast.plans.plan import Plan
from toast.process.messages import Emitter, complete, leave
from toast.process.outcome import EngineFailed
from toast.verify.comparison import verify_pair
from toast.verify.pair import Pair, load_pair
from toast.verify.scaling import SMALLEST
from toast.verify.stages import VerifyStages
from toast.verify.unsharded import UnshardedRuns
from toast.verify.verification import XLA, Difference, Verification

SEED = 0
REFUSALS = (jax.errors.JaxRuntimeError, ValueError)


def main(arguments: list[str]) -> int:
    """The whole process; returns its exit code."""
    data, *keys = arguments
    known = {row["programs"]: as_itself(row) for row in read_records(Path(data)) if is_known(row)}
    return complete(
        lambda emitter: prove([Case.of(key) for key in keys], known, emitter),
        REFUSALS,
        lambda reason: EngineFailed(reason, "Please report this."),
    )


def is_known(record: Record) -> bool:
    """Whether a record says what this code would say of the same programs."""
    return bool(record.get("programs")) and record["comparing"] == checker.comparing()


def as_itself(record: Record) -> Record:
    """The record of the case that was compared, for one that is the same as it."""
    own = record | {"key": record.get("same_as", record["key"])}
    own.pop("same_as", None)
    return own


def prove(cases: list[Case], known: dict[str, Record], emitter: Emitter) -> None:
    """Say of each case what is found."""
    for case in cases:
        module_of(case.model, case.preset)  # with the types that users get
    jax.config.update("jax_enable_x64", True)  # else 64-bit inputs would be made 32-bit
    runs = UnshardedRuns(SEED)
    for case in cases:
        emitter.emit("begin", key=case.key)
        with tempfile.TemporaryDirectory(prefix="toast-proof-") as name:
            record = prove_one(case, Path(name), runs, known)
        if record["programs"]:
            known.setdefault(record["programs"], as_itself(record))
        emitter.emit("proved", record=record)


def prove_one(case: Case, directory: Path, runs: UnshardedRuns, known: dict[str, Record]) -> Record:
    """Plan a case, then compare, or take what is known of the same programs."""
    record: Record = {"key": case.key, **checker.stamp(), "programs": ""}
    stages = VerifyStages(lambda _: None)
    try:
        with stages.stage("plan"):
            result = case.plan(directory)

        def load() -> Pair:
            return load_pair(directory, SMALLEST, stages)

        pair = load()
        record["programs"] = programs(pair)
        other = known.get(record["programs"])
        if other is not None:
            same = {} if other["key"] == case.key else {"same_as": other["key"]}
            return other | record | same
        found = verify_pair(pair, load, XLA, stages, runs)
    except ToastError as error:
        return record | unfinished(error.message)
    except REFUSALS as error:
        return record | unfinished(f"XLA refuses: {str(error).strip().splitlines()[0][:300]}")
    return record | summary(found, result.plan)


def unfinished(why: str) -> Record:
    """What is kept of a case that came to no comparison."""
    return {"verdict": "untold", "why": why}


def programs(pair: Pair) -> str:
    """A digest of what is compared: both modules as they are run, and the layouts of the plan."""
    sides = (pair.plan.arguments, pair.plan.results)
    layouts = [[tensor.spec for tensor in side] for side in sides]
    mesh = [(axis.name, axis.size) for axis in pair.plan.mesh.axes]
    modules = [digest(module) for module in (pair.original, pair.sharded)]
    return hashlib.sha256(json.dumps([layouts, mesh, modules]).encode()).hexdigest()[:32]


def summary(found: Verification, plan: Plan) -> Record:
    """What is kept of a comparison."""
    worst, told = found.worst, [one for one in found.differences if one.verdict != "untold"]
    return {
        "verdict": found.verdict,
        "why": "" if worst is None or found.verdict == "equal" else f"{worst.name} {worst.why}",
        "results": len(found.differences),
        "told": len(told),
        "worst": _row(max(told, key=lambda one: one.excess, default=worst)),
        "sizes": [[size.old, size.new, size.dimensions] for size in found.scaled],
        "input_scale": found.input_scale,
        "wide": found.wide,
        "sharded": any(axes for tensor in plan.arguments for axes in tensor.spec),
        "collectives": found.collectives,
        "seconds": {name: round(spent, 2) for name, spent in found.seconds.items()},
    }


def _row(worst: Difference | None) -> dict[str, Any]:
    if worst is None:
        return {}
    names = ("name", "relative", "tolerance", "rms", "rms_tolerance", "mismatched")
    return {name: getattr(worst, name) for name in names} | {"excess": worst.excess}


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
