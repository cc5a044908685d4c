"""What planning gives back: the plan and the sharded module."""

from __future__ import annotations

from dataclasses import dataclass

from toast.plans.plan import Plan
from toast.plans.reasons import Reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """A plan and the sharded module, in the form that the module came in.

    `suffix` is that of a file with such a module: `.mlir`, `.mlirbc` or `.jax_export`.
    """

    plan: Plan
    module: bytes
    suffix: str

    def explain(self, pattern: str) -> Reasons:
        """Why what `pattern` matches is laid out as it is: `Plan.explain`."""
        return self.plan.explain(pattern)
