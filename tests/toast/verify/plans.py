"""Plans of example models, as `toast plan -o DIR` leaves them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from examples import mlp
from examples.forms import serialize
from examples.models import MODELS
from toast.pipeline.plan_module import make_plan
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest

SETTINGS = {"device": "tpu-v5e", "rollouts": 200, "threads": 1}


@cache
def module_of(name: str, preset: str = "tiny") -> bytes:
    """The bytecode of a model's step, its layers scanned where they can be."""
    if name == "mlp":
        return serialize(mlp.make_step(mlp.PRESETS[preset]), "bytecode")
    model = MODELS[name]
    return serialize(model.make_step(model.config(preset, scan=model.has_scan)), "bytecode")


def planned(module: bytes, directory: Path, mesh: str, **settings: object) -> PlanResult:
    """Plan a module and write what `toast verify` reads."""
    request = PlanRequest.model_validate({"mesh": mesh, **SETTINGS, **settings})
    result = make_plan(module, request)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "plan.json").write_text(result.plan.to_json())
    (directory / "original.mlirbc").write_bytes(module)
    (directory / "sharded.mlirbc").write_bytes(result.module)
    return result
