"""The two modules of a plan, as they are or scaled down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from jaxlib.mlir import ir

from toast.analysis.errors import InvalidModule, InvalidRequest
from toast.analysis.forms import decode
from toast.costmodel.hardware.quantities import format_bytes
from toast.plans.plan import Plan
from toast.resize.resize import Resizer
from toast.verify.inputs import main_of
from toast.verify.scaling import scale_down
from toast.verify.stages import VerifyStages
from toast.verify.verification import (
    ScaledSize,
    available_bytes,
    find_module,
    form_of,
    host_bytes_needed,
    read_plan,
)


@dataclass(slots=True, kw_only=True)
class Pair:
    """The two modules and the plan that relates them; `scaled` where they were made smaller."""

    plan: Plan
    original: ir.Module
    sharded: ir.Module
    scaled: list[ScaledSize]


def read_pair(directory: Path) -> Pair:
    """What `toast plan -o DIR` wrote."""
    plan = read_plan(directory)
    original, sharded = (
        decode(find_module(directory, name).read_bytes()).module for name in ("original", "sharded")
    )
    check_pair(plan, original, sharded)
    return Pair(plan=plan, original=original, sharded=sharded, scaled=[])


def check_pair(plan: Plan, original: ir.Module, sharded: ir.Module) -> None:
    """Both modules and the plan have to speak of the same arguments and results."""
    first, second = _signature(original), _signature(sharded)
    counts = [[len(side) for side in both] for both in (first, second)]
    local = form_of(plan) == "local"  # which has of each tensor what one device holds
    if counts[0] != counts[1] or (not local and first != second):
        raise InvalidModule(
            "The sharded module does not have the arguments and results of the original.",
            "Give the directory as `toast plan -o DIR` wrote it.",
        )
    if counts[0] != [len(plan.arguments), len(plan.results)]:
        raise InvalidModule(
            "plan.json does not describe this module.",
            "Give the directory as `toast plan -o DIR` wrote it.",
        )


def _signature(module: ir.Module) -> tuple[list[str], list[str]]:
    kind = ir.FunctionType(ir.TypeAttr(main_of(module).attributes["function_type"]).value)
    return [str(t) for t in kind.inputs], [str(t) for t in kind.results]


def device_count(plan: Plan) -> int:
    """How many devices a plan is for."""
    return math.prod(axis.size for axis in plan.mesh.axes)


def scale_pair(pair: Pair, budget: int) -> Pair:
    """The pair at sizes that take at most `budget` bytes; refuses what the host cannot hold."""
    needed = host_bytes_needed(pair.plan, device_count(pair.plan))
    scaled = scale_down(Resizer(pair.original, pair.sharded), pair.plan, needed, budget)
    there = available_bytes()
    if scaled.bytes_needed > there:
        raise InvalidRequest(
            f"Verifying needs about {format_bytes(scaled.bytes_needed)} of host memory even scaled "
            f"down, and {format_bytes(there)} are available.",
            "Verify a smaller preset of the same step (fewer layers, smaller sizes).",
        )
    return Pair(
        plan=scaled.plan,
        original=pair.original,
        sharded=pair.sharded,
        scaled=scaled.sizes,
    )


def load_pair(directory: Path, budget: int, stages: VerifyStages) -> Pair:
    """What `toast plan -o DIR` wrote, scaled down to a budget of bytes above 0."""
    with stages.stage("load"):
        pair = read_pair(directory)
    if budget:
        with stages.stage("scale down"):
            pair = scale_pair(pair, budget)
    return pair
