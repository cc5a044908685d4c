"""The original run on one device: what the sharded module is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.forms import digest
from toast.verify.compare import Deviation, deviation
from toast.verify.conditioning import UnshardedRun, find_baseline
from toast.verify.execution import compile_module, run_original
from toast.verify.inputs import describe_arguments
from toast.verify.stages import VerifyStages
from toast.verify.sums import reordered

EXCESS_PRECISION = "xla_allow_excess_precision"
"""XLA's leave to keep what is narrow wide between ops, of which it makes other use when sharded."""


@dataclass(slots=True, kw_only=True)
class Unsharded:
    """The original compiled and run; with its sums in another order when that is asked for."""

    module: ir.Module
    flags: dict[str, Any]
    baseline: UnshardedRun
    _own: list[list[Deviation]] = field(default_factory=list)

    @property
    def is_hopeless(self) -> bool:
        """Whether most results say nothing whatever a sharded module makes of them."""
        return 2 * self.baseline.mute > len(self.baseline.results)

    def own_deviations(self, stages: VerifyStages) -> list[list[Deviation]]:
        """How far the original is from itself: on moved inputs, and with its sums reordered."""
        if self._own or not self.baseline.results:
            return self._own
        with stages.stage("compile the original with its sums reordered"):
            flags = self.flags | {EXCESS_PRECISION: False}
            again = compile_module(reordered(self.module), 1, **flags)
        with stages.stage("run it"):
            results = run_original(again, self.baseline.inputs)
        pairs = zip(self.baseline.results, results, self.baseline.moved, strict=True)
        self._own = [[moved, deviation(first, second)] for first, second, moved in pairs]
        return self._own


class UnshardedRuns:
    """What was run on one device: equal originals are run once for all that are compared to them.

    `seed` is that of the inputs.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._runs: dict[str, Unsharded] = {}

    def of(self, module: ir.Module, flags: dict[str, Any], stages: VerifyStages) -> Unsharded:
        """The run of an original."""
        key = digest(module)
        if key not in self._runs:
            self._runs[key] = self._run(module, flags, stages)
        return self._runs[key]

    def _run(self, module: ir.Module, flags: dict[str, Any], stages: VerifyStages) -> Unsharded:
        with stages.stage("compile the original"):
            plain = compile_module(module, 1, **flags)
        with stages.stage("run the original"):
            with module.context:
                arguments = describe_arguments(module)
            baseline = find_baseline(
                arguments, self.seed, lambda inputs: run_original(plain, inputs)
            )
        return Unsharded(module=module, flags=flags, baseline=baseline)
