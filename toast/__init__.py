"""TOAST: find how to lay out a step function on a mesh of accelerators.

    result = toast.plan("step.mlir", mesh="data=2,model=4", device="tpu-v5e")
    print(result.plan.predicted.step_seconds)

Importing this package imports neither jax nor numba; what needs them is loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toast.analysis.errors import (
        EngineCrashed,
        InvalidMesh,
        InvalidModule,
        InvalidRequest,
        ToastError,
        UnknownDevice,
        UnsupportedModule,
    )
    from toast.api import plan, plan_pipeline, plan_spmd, size
    from toast.client import Client
    from toast.plans.advice import Slice, SliceTable
    from toast.plans.diff import diff
    from toast.plans.notices import ClosedOverArrays, DoesNotFit, PlanWarning
    from toast.plans.pipeline_answer import PipelineAnswer
    from toast.plans.plan import Plan
    from toast.plans.spmd_answer import SpmdAnswer
    from toast.process.outcome import EngineFailed, EngineOutOfMemory, EngineTimeout
    from toast.request.request import PlanRequest
    from toast.sharding import autoshard
    from toast.stages.run import PipelineRunner, run_pipeline

__all__ = [
    "Client",
    "ClosedOverArrays",
    "DoesNotFit",
    "EngineCrashed",
    "EngineFailed",
    "EngineOutOfMemory",
    "EngineTimeout",
    "InvalidMesh",
    "InvalidModule",
    "InvalidRequest",
    "PipelineAnswer",
    "PipelineRunner",
    "Plan",
    "PlanRequest",
    "PlanWarning",
    "Slice",
    "SliceTable",
    "SpmdAnswer",
    "ToastError",
    "UnknownDevice",
    "UnsupportedModule",
    "autoshard",
    "diff",
    "plan",
    "plan_pipeline",
    "plan_spmd",
    "run_pipeline",
    "size",
]

_HOMES = {
    "Client": "toast.client",
    "ClosedOverArrays": "toast.plans.notices",
    "DoesNotFit": "toast.plans.notices",
    "EngineFailed": "toast.process.outcome",
    "EngineOutOfMemory": "toast.process.outcome",
    "EngineTimeout": "toast.process.outcome",
    "Plan": "toast.plans.plan",
    "PlanRequest": "toast.request.request",
    "PlanWarning": "toast.plans.notices",
    "Slice": "toast.plans.advice",
    "SliceTable": "toast.plans.advice",
    "autoshard": "toast.sharding",
    "diff": "toast.plans.diff",
    "plan": "toast.api",
    "PipelineAnswer": "toast.plans.pipeline_answer",
    "PipelineRunner": "toast.stages.run",
    "SpmdAnswer": "toast.plans.spmd_answer",
    "plan_pipeline": "toast.api",
    "plan_spmd": "toast.api",
    "run_pipeline": "toast.stages.run",
    "size": "toast.api",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'toast' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "toast.analysis.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
