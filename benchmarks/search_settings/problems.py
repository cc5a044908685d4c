"""The problems that settings are tried on: models of `examples/models` and of libraries."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from pathlib import Path

from toast.analysis.analyse import analyse
from toast.analysis.forms import bytecode
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.search.actions import action_space
from toast.search.problem import Problem

DEVICE = "tpu-v5e"
LIBRARIES = Path(__file__).parents[2] / "tests" / "data" / "libraries"
PLANE, CUBE = "data=2,model=4", "x=2,y=2,z=2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model on a mesh. `kept` says that it is a module of a library, kept compressed."""

    model: str
    mesh: str
    kept: bool = False

    @property
    def name(self) -> str:
        """The model and the sizes of the mesh, as `gpt 2x4`."""
        sizes = (str(axis.size) for axis in Mesh.parse(self.mesh).axes)
        return f"{self.model} {'x'.join(sizes)}"


CASES = (
    Case(model="t2b", mesh=PLANE),
    Case(model="gpt", mesh=PLANE),
    Case(model="gpt", mesh=CUBE),
    Case(model="itx", mesh=CUBE),
    Case(model="gns", mesh=PLANE),
    Case(model="wideresnet", mesh=PLANE),
    Case(model="bert", mesh=PLANE, kept=True),
    Case(model="t5", mesh=CUBE, kept=True),
    Case(model="nnx_transformer", mesh=PLANE, kept=True),
)
"""Models of `examples/models` at the paper's sizes, with scanned layers."""


def build(case: Case) -> Problem:
    """The planning problem on TPU v5e, with its memory."""
    device = find(DEVICE)
    analysis = analyse(load(_module(case)).program)
    evaluator = Evaluator(analysis, Mesh.parse(case.mesh), device)
    reward = evaluator.reward(float(device.plannable_bytes))
    return Problem(evaluator=evaluator, reward=reward, actions=action_space(evaluator))


def _module(case: Case) -> bytes:
    if case.kept:
        return lzma.decompress((LIBRARIES / f"{case.model}.mlirbc.xz").read_bytes())
    from examples.models import MODELS

    model = MODELS[case.model]
    return bytecode(model.lower(model.config("paper", scan=True)).compiler_ir("stablehlo"))
