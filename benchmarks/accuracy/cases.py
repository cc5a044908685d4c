"""Which cases there are, and the state, price and sharded module of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.analyse import analyse
from analysis.forms import decode
from analysis.load import load
from benchmarks.accuracy.models import module_of
from costmodel.devices import find
from costmodel.evaluator import Action, Evaluator, State
from costmodel.mesh import Mesh
from search.actions import action_space
from search.planners import PLANNERS
from search.problem import Problem, Settings
from search.progress import Control
from toast.baselines import data_parallel
from toast.judge import Target
from toast.specs import Specs
from toast.writer import write

MESHES = ("data=8", "data=2,model=4", "data=4,model=2", "x=2,y=2,z=2")
SEARCH_SECONDS = 5.0
RANDOM_DEPTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program to compile; `plan` is unsharded, data_parallel, mcts, greedy or random-N."""

    model: str
    mesh: str
    plan: str
    target: str

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.model} {self.mesh} {self.plan} {self.target}"


def all_cases(models: list[str], randoms: int, target: str) -> Iterator[Case]:
    """Every case, model by model and mesh by mesh, the plans that matter most first."""
    plans = ["mcts", "data_parallel", *(f"random-{n}" for n in range(randoms)), "greedy"]
    for model in models:
        for mesh in MESHES:
            for plan in plans:
                yield Case(model=model, mesh=mesh, plan=plan, target=target)
        yield Case(model=model, mesh=MESHES[0], plan="unsharded", target=target)


@dataclass(slots=True)
class Bench:
    """One model on one mesh, analysed once."""

    module: bytes
    evaluator: Evaluator
    problem: Problem

    @classmethod
    def make(cls, model: str, mesh: str, target: str) -> Bench:
        """Load and analyse a model."""
        module = module_of(model)
        device = find(Target.parse(target).chip.device)
        evaluator = Evaluator(analyse(load(module).program), Mesh.parse(mesh), device)
        problem = Problem(
            evaluator=evaluator,
            reward=evaluator.reward(float(device.usable_bytes)),
            actions=action_space(evaluator),
        )
        return cls(module=module, evaluator=evaluator, problem=problem)

    def state(self, plan: str) -> State:
        """The state that a plan's name stands for."""
        if plan == "unsharded":
            return ()
        if plan == "data_parallel":
            return data_parallel(self.evaluator)
        if plan.startswith("random-"):
            return random_state(self.problem, int(plan.removeprefix("random-")))
        settings = Settings(seed=0, threads=1)
        return PLANNERS[plan](self.problem, settings, Control(budget=SEARCH_SECONDS)).state

    def write(self, state: State) -> bytes:
        """The sharded module; writing changes the module, so each is loaded afresh."""
        specs = Specs(self.evaluator, state)
        return write(load(self.module), self.evaluator.mesh, specs, specs.pins())

    def predict(self, state: State) -> dict[str, Any]:
        """What the cost model says, as JSON values."""
        cost = self.evaluator.cost(state)
        names = [axis.name for axis in self.evaluator.mesh.axes]
        return {
            "compute_seconds": cost.compute,
            "communication_seconds": cost.communication,
            "peak_bytes": cost.peak,
            "fits": cost.peak <= self.problem.reward.memory,
            "collectives": [
                {
                    "kind": row.kind.name.lower(),
                    "axes": [names[axis] for axis in row.axes],
                    "count": row.count,
                    "bytes": row.bytes,
                    "seconds": row.seconds,
                }
                for row in self.evaluator.collectives(state)
            ],
        }


def random_state(problem: Problem, seed: int) -> State:
    """Some actions that each change the layout, drawn by seed; fewer where few are left."""
    generator = np.random.default_rng(seed)
    wanted = int(generator.integers(1, RANDOM_DEPTH + 1))
    state: State = ()
    key = problem.evaluator.cost(state).key
    for _ in range(20 * wanted):
        if len(state) == wanted or not problem.actions:
            break
        candidate = (*state, problem.actions[int(generator.integers(len(problem.actions)))])
        changed = problem.evaluator.cost(candidate).key
        if changed != key:
            state, key = candidate, changed
    return state


def digest(module: bytes) -> str:
    """The hash of a module less its locations; a later run knows by it that it is the same."""
    decoded = decode(module).module
    with decoded.context:
        text: str = decoded.operation.get_asm(enable_debug_info=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plain(state: State) -> list[list[int]]:
    """A state as JSON values."""
    return [[action.group, action.axis, action.bits] for action in state]


def state_of(rows: list[list[int]]) -> State:
    """The state that `plain` made these values of."""
    return tuple(Action(group=group, axis=axis, bits=bits) for group, axis, bits in rows)
