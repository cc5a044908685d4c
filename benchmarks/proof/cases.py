"""What is proved: every planner's plan of every model for every mesh of eight devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from examples.forms import serialize
from examples.models import MODELS
from toast.pipeline.plan_module import make_plan
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest
from toast.search.planners import PLANNERS

MESHES = {
    "2x4": "data=2,model=4",
    "4x2": "data=4,model=2",
    "2x2x2": "pod=2,data=2,model=2",
    "8x1": "data=8,model=1",
    "1x8": "data=1,model=8",
}
DEVICES = 8
SETTINGS = {"device": "tpu-v5e", "rollouts": 200, "threads": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model at a preset of its sizes, planned for a mesh by a planner."""

    model: str
    mesh: str
    planner: str
    preset: str = "paper"

    @property
    def key(self) -> str:
        """A name of the case."""
        return f"{self.model} {self.preset} {self.mesh} {self.planner}"

    @staticmethod
    def of(key: str) -> Case:
        """The case of this name."""
        model, preset, mesh, planner = key.split()
        return Case(model=model, preset=preset, mesh=mesh, planner=planner)

    def plan(self, directory: Path) -> PlanResult:
        """Plan the model and write into `directory` what `toast verify` reads."""
        module = module_of(self.model, self.preset)
        return write_plan(module, directory, MESHES[self.mesh], planner=self.planner)


def every_case() -> Iterator[Case]:
    """All of them, those of a model one after another."""
    for model in MODELS:
        for mesh in MESHES:
            for planner in sorted(PLANNERS):
                yield Case(model=model, mesh=mesh, planner=planner)


@cache
def module_of(name: str, preset: str) -> bytes:
    """The bytecode of a model's step, its layers scanned where they can be."""
    model = MODELS[name]
    return serialize(model.make_step(model.config(preset, scan=model.has_scan)), "bytecode")


def write_plan(module: bytes, directory: Path, mesh: str, **settings: object) -> PlanResult:
    """Plan a module and write what `toast verify` reads."""
    request = PlanRequest.model_validate({"mesh": mesh, **SETTINGS, **settings})
    result = make_plan(module, request)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "plan.json").write_text(result.plan.to_json())
    (directory / "original.mlirbc").write_bytes(module)
    (directory / "sharded.mlirbc").write_bytes(result.module)
    return result
