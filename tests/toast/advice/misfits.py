"""Small training steps that do not fit, planned, and the same steps written otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from examples import gemma
from examples.forms import serialize
from tests.toast.planned import request
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.mesh_search import MeshSearch, Searched
from toast.pipeline.stages import Stages
from toast.search.progress import Control

SMALL = replace(gemma.PRESETS["tiny"], batch=32)
MESH = "a=2"


@cache
def step(config: gemma.Config = SMALL) -> bytes:
    """The bytecode of a training step of Gemma."""
    return serialize(gemma.make_step(config), "bytecode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A step that is planned on a mesh of the test device."""

    module: bytes
    search: MeshSearch
    best: Searched

    @property
    def peak(self) -> float:
        return self.best.cost.peak


@cache
def planned(config: gemma.Config = SMALL, memory: int | None = None, mesh: str = MESH) -> Job:
    """A step with its best plan."""
    module = step(config)
    source = load(module)
    search = MeshSearch(
        source=source,
        analysis=analyse(source.program),
        device=find("cpu"),
        request=request(mesh=mesh, memory=memory, rollouts=200),
        stages=Stages(None),
    )
    return Job(module=module, search=search, best=search.searched(Mesh.parse(mesh), Control()))
