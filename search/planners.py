"""The planners by name."""

from __future__ import annotations

from collections.abc import Callable

from toast.search.beam import beam
from toast.search.greedy_and_random import greedy, random_search
from toast.search.ilp import ilp
from toast.search.mcts import search
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control

Planner = Callable[[Problem, SearchSettings, Control], Found]

PLANNERS: dict[str, Planner] = {
    "mcts": search,
    "greedy": greedy,
    "beam": beam,
    "ilp": ilp,
    "random": random_search,
}
