"""The state that a plan's name stands for: searched, drawn, or close to the best one.

| name | state |
| --- | --- |
| `unsharded` | no action |
| `data_parallel` | the batch over all axes |
| `model_parallel` | over all axes what shards most work and is not the batch |
| `mcts`, `greedy` | what the planner of that name finds |
| `random-N` | some actions that each change the layout, drawn with seed N |
| `near-N` | the N-th of states priced within 30 % of the searched one, spread over that range |
"""

from __future__ import annotations

import numpy as np

from toast.costmodel.evaluator import State
from toast.plans.baselines import batch_groups, data_parallel, over_all_axes
from toast.search.planners import PLANNERS
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control

SEARCH_SECONDS = 3.0
RANDOM_DEPTH = 6
NEAR = 0.3
_BINS = 12
_DRAWS = 4000


def state_for(problem: Problem, plan: str) -> State:
    """The state of a plan; KeyError for a name that is none."""
    if plan == "unsharded":
        return ()
    if plan == "data_parallel":
        return data_parallel(problem.evaluator)
    if plan == "model_parallel":
        return model_parallel(problem)
    kind, _, number = plan.partition("-")
    if kind == "random":
        return random_state(problem, int(number))
    if kind == "near":
        return near_state(problem, int(number))
    settings = SearchSettings(seed=0, threads=1)
    return PLANNERS[plan](problem, settings, Control(budget=SEARCH_SECONDS)).state


def model_parallel(problem: Problem) -> State:
    """Of all colours but the batch the one that shards the most work, over every axis."""
    groups = {action.group for action in problem.actions}
    return over_all_axes(
        problem.evaluator, sorted(groups - set(batch_groups(problem.evaluator.analysis)))
    )


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


def near_state(problem: Problem, number: int) -> State:
    """The `number`-th state near the searched one; any other where there are fewer."""
    pool = sorted(near_states(problem, state_for(problem, "mcts")).items())
    if not pool:
        return random_state(problem, 1000 + number)
    # Steps of 5 bins of 12 visit all bins, and jump far from one number to the next.
    share = (number * 5 % _BINS + 0.5) / _BINS
    low, high = pool[0][0], pool[-1][0]
    wanted = low + share * (high - low)
    return min(pool, key=lambda row: abs(row[0] - wanted))[1]


def near_states(problem: Problem, best: State) -> dict[float, State]:
    """States priced at most `NEAR` slower than the fastest found near `best`, by seconds.

    They are made of `best` by dropping, adding and replacing actions at random.
    """
    generator = np.random.default_rng(0)
    priced: dict[int, tuple[float, State]] = {}
    for _ in range(_DRAWS if problem.actions else 0):
        state = _changed(problem, best, generator)
        cost = problem.evaluator.cost(state)
        priced.setdefault(cost.key, (cost.seconds, state))
    fastest = min((seconds for seconds, _ in priced.values()), default=0.0)
    kept = (row for row in priced.values() if row[0] <= fastest * (1.0 + NEAR))
    return dict(sorted(kept))


def _changed(problem: Problem, state: State, generator: np.random.Generator) -> State:
    """A state with one to three of its actions dropped, and one to three others put in."""
    left = list(state)
    for _ in range(int(generator.integers(0, 3))):
        if left:
            left.pop(int(generator.integers(len(left))))
    for _ in range(int(generator.integers(0, 4))):
        action = problem.actions[int(generator.integers(len(problem.actions)))]
        left.insert(int(generator.integers(len(left) + 1)), action)
    return tuple(left)
