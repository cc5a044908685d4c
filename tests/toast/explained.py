"""Small modules that are explained, and the parts that explain them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from tests.modules import argument_group
from toast.analysis.analyse import analyse
from toast.analysis.load import Source, load
from toast.costmodel.evaluator import Action, Evaluator, Refined
from toast.costmodel.explain import PriceBreakdown, explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.explain.explainer import Explainer
from toast.pipeline.user_constraints import Demands, demands
from toast.search.actions import action_space
from toast.search.problem import Problem


@cache
def step() -> bytes:
    """A training step of two layers whose sizes 2 and 4 divide only here and there."""

    def train(p: dict[str, Any], x: jax.Array) -> dict[str, Any]:
        def loss(p: dict[str, Any]) -> jax.Array:
            hidden = jnp.tanh(x @ p["first"])
            return jnp.sum(jnp.tanh(hidden @ p["second"]) ** 2)

        return jax.tree.map(lambda w, g: w - 0.1 * g, p, jax.grad(loss)(p))

    def shape(*sizes: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, jnp.float32)

    weights = {"first": shape(64, 1001), "second": shape(1001, 512)}
    return jax.jit(train).lower(weights, shape(8, 64)).as_text(debug_info=True).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A module that is ready to be explained."""

    source: Source
    problem: Problem
    demands: Demands

    @property
    def explainer(self) -> Explainer:
        return Explainer(self.source, self.problem.evaluator)

    def terms(self, state: Refined) -> PriceBreakdown:
        """The terms of the price of a state."""
        return explain(resolve(self.problem.evaluator, state))

    def action(self, argument: str, dim: int, axis: int, bits: int = 0) -> Action:
        """The action that splits a dimension of an argument, by a part of its name."""
        analysis = self.problem.evaluator.analysis
        names = [each.name for each in analysis.program.arguments]
        (number,) = [n for n, name in enumerate(names) if argument in name]
        return Action(group=argument_group(analysis, number, dim), axis=axis, bits=bits)


def loaded(
    data: bytes,
    *,
    mesh: str = "data=2,model=4",
    memory: float = 1e12,
    pins: tuple[str, ...] = (),
    forbid: tuple[str, ...] = (),
    penalty: float = 10.0,
) -> Loaded:
    """A module for a mesh, with demands."""
    source, shape = load(data), Mesh.parse(mesh)
    asked = demands(source, shape, pins, forbid)
    evaluator = Evaluator(analyse(source.program), shape, find("cpu"), asked.pins(shape))
    problem = Problem(
        evaluator=evaluator,
        reward=evaluator.reward(memory, penalty),
        actions=action_space(evaluator),
    )
    return Loaded(source=source, problem=problem, demands=asked)
