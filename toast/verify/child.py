"""The process that runs both modules: `python -m toast.verify.child DIR SEED EXECUTOR BUDGET`.

It is started by `toast.verify.verification` with as many virtual CPU devices as the plan's mesh
has. The sharded module gets its arguments laid out as `plan.json` says, so a plan that does not
describe its module fails here too. A BUDGET of bytes above 0 asks for smaller programs of the same
structure.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir

from toast.analysis.errors import InvalidModule, InvalidRequest, UnsupportedModule
from toast.analysis.forms import decode
from toast.costmodel.hardware.quantities import format_bytes
from toast.plans.plan import Plan
from toast.process.messages import Emitter, complete, leave
from toast.resize.resize import Resizer
from toast.verify.compare import Deviation, deviation, judge, tolerance
from toast.verify.conditioning import UnshardedRun, find_baseline
from toast.verify.execution import collectives_of, compile_module, run_original, run_sharded
from toast.verify.inputs import describe_arguments, main_of
from toast.verify.reference.run import collectives_in, run_reference
from toast.verify.scaling import scale_down
from toast.verify.sums import reordered
from toast.verify.verification import (
    REFERENCE,
    Difference,
    ScaledSize,
    Verification,
    available_bytes,
    find_module,
    form_of,
    host_bytes_needed,
    read_plan,
)
from toast.verify.widen import widen

Array = np.ndarray[Any, Any]

QUICKLY = {"xla_backend_optimization_level": 0}
"""For a scaled-down program it takes longer to compile well than to run."""
EXCESS_PRECISION = "xla_allow_excess_precision"
"""XLA's leave to keep what is narrow wide between ops, of which it makes other use when sharded."""


class VerifyStages:
    """Seconds by stage, announced as they start."""

    def __init__(self, emitter: Emitter) -> None:
        self.seconds: dict[str, float] = {}
        self._emitter = emitter

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        self._emitter.emit("stage", stage=name)
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


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


def verify_directory(
    directory: Path, seed: int, executor: str, budget: int, emitter: Emitter
) -> Verification:
    """Load, compile and run both modules, then compare; in 64 bits where that tells more."""
    stages = VerifyStages(emitter)
    pair = _load(directory, budget, stages)
    run = Comparison(pair=pair, seed=seed, executor=executor, stages=stages, wide=False)
    found = None if run.is_hopeless else run.compare()
    if found is not None and found.verdict == "equal":
        return found
    other = _load(directory, budget, stages)
    try:
        with stages.stage("widen"):
            for module in (other.original, other.sharded):
                widen(module)
    except UnsupportedModule:
        return found or run.compare()
    again = Comparison(pair=other, seed=seed, executor=executor, stages=stages, wide=True)
    return again.compare()


def _load(directory: Path, budget: int, stages: VerifyStages) -> Pair:
    with stages.stage("load"):
        pair = read_pair(directory)
    if budget:
        with stages.stage("scale down"):
            pair = scale_pair(pair, budget)
    return pair


class Comparison:
    """A pair compiled and run: the original at once, the sharded module when it is compared."""

    def __init__(
        self, *, pair: Pair, seed: int, executor: str, stages: VerifyStages, wide: bool
    ) -> None:
        self._pair, self._seed, self._stages, self._wide = pair, seed, stages, wide
        self._executor = executor
        self._flags = QUICKLY if pair.scaled else {}
        with stages.stage("compile the original"):
            plain = compile_module(pair.original, 1, **self._flags)
        with stages.stage("run the original"):
            with pair.original.context:
                arguments = describe_arguments(pair.original)
            self._baseline = find_baseline(
                arguments, seed, lambda inputs: run_original(plain, inputs)
            )

    @property
    def is_hopeless(self) -> bool:
        """Whether most results say nothing whatever the sharded module makes of them."""
        return 2 * self._baseline.mute > len(self._baseline.results)

    def compare(self) -> Verification:
        """Run the sharded module, and compare with the original by what rounding does to it."""
        pair, stages, baseline = self._pair, self._stages, self._baseline
        own = self._own_deviations()
        actual, collectives = self._run_sharded()
        with stages.stage("compare"):
            differences = compare(pair.plan, baseline, actual, own)
        return Verification(
            devices=device_count(pair.plan),
            seed=self._seed,
            input_scale=baseline.scale,
            wide=self._wide,
            scaled=pair.scaled,
            differences=differences,
            collectives=collectives,
            seconds=stages.seconds,
        )

    def _run_sharded(self) -> tuple[list[Array], dict[str, int]]:
        """The results of the sharded module, and how many collectives of each kind it has."""
        pair, stages, inputs = self._pair, self._stages, self._baseline.inputs
        if self._executor == REFERENCE:
            with stages.stage("run the sharded module device by device"):
                return run_reference(pair.sharded, pair.plan, inputs), collectives_in(pair.sharded)
        with stages.stage("compile the sharded module"):
            parallel = compile_module(pair.sharded, device_count(pair.plan), **self._flags)
        with stages.stage("run the sharded module"):
            return run_sharded(parallel, pair.plan, inputs), collectives_of(parallel)

    def _own_deviations(self) -> list[list[Deviation]]:
        """How far the original is from itself: on moved inputs, and with its sums reordered."""
        baseline, stages = self._baseline, self._stages
        with stages.stage("compile the original with its sums reordered"):
            flags = self._flags | {EXCESS_PRECISION: False}
            again = compile_module(reordered(self._pair.original), 1, **flags)
        with stages.stage("run it"):
            results = run_original(again, baseline.inputs)
        pairs = zip(baseline.results, results, baseline.moved, strict=True)
        return [[moved, deviation(first, second)] for first, second, moved in pairs]


def compare(
    plan: Plan, baseline: UnshardedRun, actual: list[Array], own: Sequence[Sequence[Deviation]]
) -> list[Difference]:
    """What is to be said of each result, where rounding makes them differ as `own` says."""
    rows = zip(plan.results, baseline.results, actual, own, baseline.blind, strict=True)
    return [
        judge(tensor, deviation(first, second), tolerance(first, runs), blind)
        for tensor, first, second, runs, blind in rows
    ]


def main(arguments: list[str]) -> int:
    """The whole process; returns its exit code."""
    jax.config.update("jax_enable_x64", True)  # else 64-bit inputs would be made 32-bit
    directory, seed, executor, budget = arguments

    def verify(emitter: Emitter) -> None:
        verification = verify_directory(Path(directory), int(seed), executor, int(budget), emitter)
        emitter.emit("verification", verification=verification.model_dump(mode="json"))

    return complete(
        verify,
        (jax.errors.JaxRuntimeError, ValueError),
        lambda reason: InvalidModule(
            f"XLA refuses to compile or to run the pair on virtual CPU devices: {reason}.",
            "A module with ops of one platform alone can only be verified on that platform.",
        ),
    )


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
