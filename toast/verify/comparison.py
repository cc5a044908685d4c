"""A sharded module compared with its original. XLA may end the process.

The sharded module gets its arguments laid out as `plan.json` says, so a plan that does not describe
its module fails here too. A budget of bytes above 0 asks for smaller programs of the same
structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toast.analysis.errors import UnsupportedModule
from toast.plans.plan import Plan
from toast.verify.compare import Deviation, deviation, judge, tolerance
from toast.verify.conditioning import UnshardedRun
from toast.verify.execution import collectives_of, compile_module, run_sharded
from toast.verify.pair import Pair, device_count, load_pair
from toast.verify.reference.run import collectives_in, run_reference
from toast.verify.stages import VerifyStages
from toast.verify.unsharded import Unsharded, UnshardedRuns
from toast.verify.verification import REFERENCE, Difference, Verification
from toast.verify.widen import widen

Array = np.ndarray[Any, Any]

QUICKLY = {"xla_backend_optimization_level": 0}
"""For a scaled-down program it takes longer to compile well than to run."""


def verify_directory(
    directory: Path, executor: str, budget: int, stages: VerifyStages, runs: UnshardedRuns
) -> Verification:
    """Load, compile and run both modules, then compare; in 64 bits where that tells more."""

    def load() -> Pair:
        return load_pair(directory, budget, stages)

    return verify_pair(load(), load, executor, stages, runs)


def verify_pair(
    pair: Pair, load: Callable[[], Pair], executor: str, stages: VerifyStages, runs: UnshardedRuns
) -> Verification:
    """Compare what is loaded; `load` gives it once more, to be changed."""
    run = Comparison(pair=pair, executor=executor, stages=stages, runs=runs, wide=False)
    found = None if run.unsharded.is_hopeless else run.compare()
    if found is not None and found.verdict == "equal":
        return found
    other = load()
    try:
        with stages.stage("widen"):
            for module in (other.original, other.sharded):
                widen(module)
    except UnsupportedModule:
        return found or run.compare()
    again = Comparison(pair=other, executor=executor, stages=stages, runs=runs, wide=True)
    return again.compare()


@dataclass(kw_only=True)
class Comparison:
    """A pair: the original is run at once, the sharded module when it is compared."""

    pair: Pair
    executor: str
    stages: VerifyStages
    runs: UnshardedRuns
    wide: bool

    @property
    def _flags(self) -> dict[str, Any]:
        return QUICKLY if self.pair.scaled else {}

    @cached_property
    def unsharded(self) -> Unsharded:
        """The run of the original."""
        return self.runs.of(self.pair.original, self._flags, self.stages)

    def compare(self) -> Verification:
        """Run the sharded module, and compare with the original by what rounding does to it."""
        pair, stages, baseline = self.pair, self.stages, self.unsharded.baseline
        own = self.unsharded.own_deviations(stages)
        actual, collectives = self._run_sharded()
        with stages.stage("compare"):
            differences = compare(pair.plan, baseline, actual, own)
        return Verification(
            devices=device_count(pair.plan),
            seed=self.runs.seed,
            input_scale=baseline.scale,
            wide=self.wide,
            scaled=pair.scaled,
            differences=differences,
            collectives=collectives,
            seconds=stages.seconds,
        )

    def _run_sharded(self) -> tuple[list[Array], dict[str, int]]:
        """The results of the sharded module, and how many collectives of each kind it has."""
        pair, stages, inputs = self.pair, self.stages, self.unsharded.baseline.inputs
        if self.executor == REFERENCE:
            with stages.stage("run the sharded module device by device"):
                return run_reference(pair.sharded, pair.plan, inputs), collectives_in(pair.sharded)
        with stages.stage("compile the sharded module"):
            parallel = compile_module(pair.sharded, device_count(pair.plan), **self._flags)
        with stages.stage("run the sharded module"):
            return run_sharded(parallel, pair.plan, inputs), collectives_of(parallel)


def compare(
    plan: Plan, baseline: UnshardedRun, actual: list[Array], own: Sequence[Sequence[Deviation]]
) -> list[Difference]:
    """What is to be said of each result, where rounding makes them differ as `own` says."""
    rows = zip(plan.results, baseline.results, actual, own, baseline.blind, strict=True)
    return [
        judge(tensor, deviation(first, second), tolerance(first, runs), blind)
        for tensor, first, second, runs, blind in rows
    ]
