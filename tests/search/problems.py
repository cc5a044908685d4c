"""Problems that tests of the search share."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from examples import gemma
from tests.modules import evaluator_of
from toast.search.actions import action_space
from toast.search.pareto import ParetoFront
from toast.search.problem import Problem, SearchSettings

ALONE = SearchSettings(rollouts=1_500, round_rollouts=500, helpers=False)
"""Rounds of the tree and nothing else."""


def problem_of(data: bytes, mesh: str, memory: float = 1e12) -> Problem:
    """A module on a mesh of the test device."""
    evaluator = evaluator_of(data, mesh)
    return Problem(
        evaluator=evaluator, reward=evaluator.reward(memory), actions=action_space(evaluator)
    )


@cache
def gemma_problem(memory: float = 1e12) -> Problem:
    """A small transformer's training step on eight devices."""
    data = gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode()
    return problem_of(data, "data=2,model=4", memory)


@cache
def layered_problem(layers: int = 2, memory: float = 1e12) -> Problem:
    """The same of so many layers."""
    config = replace(gemma.PRESETS["tiny"], layers=layers)
    return problem_of(
        gemma.lower(config).as_text(debug_info=True).encode(), "data=2,model=4", memory
    )


def fresh(problem: Problem) -> Problem:
    """The problem as if nothing had been priced yet."""
    return replace(problem, front=ParetoFront())
