"""What is found on a mesh is found on one whose axes are split: the finer can say all of it."""

from __future__ import annotations

from functools import cache, partial

import pytest

from examples import gemma
from tests.search.known_layouts.steps import (
    attention_forward,
    experts_forward,
    mlp_training,
    module_of,
)
from toast.analysis.analyse import Analysis, analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.search.actions import action_space
from toast.search.neighbours import replaced
from toast.search.planners import PLANNERS
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control

DEVICE = "a100-80gb"
"""Eight of them have one switch, so axes that are split cost together what they did."""
MODELS = {
    "mlp": partial(mlp_training, layers=2, width=2048, hidden=8192, tokens=8192),
    "attention": partial(
        attention_forward,
        layers=2,
        batch=4,
        seq=2048,
        width=2048,
        heads=16,
        size=128,
        shared=True,
        hidden=8192,
    ),
    "experts": partial(experts_forward, groups=16, rows=512, width=1024, hidden=4096, count=16),
}
MESHES = ("x=8", "x=2,y=4", "x=2,y=2,z=2")
SPLIT = {"x=2,y=4": ((0, 1),), "x=2,y=2,z=2": ((0,), (1, 2))}
"""For each axis of the mesh before it the axes that it is split into."""


@cache
def analysis_of(name: str) -> Analysis:
    if name == "gemma":
        data = gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode()
    else:
        data = module_of(MODELS[name]())
    return analyse(load(data).program)


@cache
def problem_of(name: str, mesh: str) -> Problem:
    evaluator = Evaluator(analysis_of(name), Mesh.parse(mesh), find(DEVICE))
    reward = evaluator.reward(float(find(DEVICE).plannable_bytes))
    return Problem(evaluator=evaluator, reward=reward, actions=action_space(evaluator))


@cache
def found_on(name: str, mesh: str, seed: int) -> Found:
    settings = SearchSettings(seed=seed, rollouts=2000, round_rollouts=500)
    return PLANNERS["mcts"](problem_of(name, mesh), settings, Control())


def split(state: State, axes: tuple[tuple[int, ...], ...]) -> State:
    """A state on the mesh whose axes are split so."""
    return tuple(replaced(action, axis=axis) for action in state for axis in axes[action.axis])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("coarse", "fine"), [MESHES[:2], MESHES[1:]])
@pytest.mark.parametrize("name", [*MODELS, "gemma"])
def test_a_finer_mesh_is_no_dearer(name: str, coarse: str, fine: str, seed: int) -> None:
    found, finer = found_on(name, coarse, seed), found_on(name, fine, seed)
    said, _ = problem_of(name, fine).cost(split(found.state, SPLIT[fine]))
    assert said == pytest.approx(found.cost, rel=1e-3)
    assert finer.cost <= found.cost * 1.01
