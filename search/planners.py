"""The planners by name."""

from __future__ import annotations

from collections.abc import Callable

from search.beam import beam
from search.ilp import ilp
from search.mcts import search
from search.problem import Found, Problem, Settings
from search.progress import Control
from search.simple import greedy, random_search

Planner = Callable[[Problem, Settings, Control], Found]

PLANNERS: dict[str, Planner] = {
    "mcts": search,
    "greedy": greedy,
    "beam": beam,
    "ilp": ilp,
    "random": random_search,
}
