"""States priced by the chunk and on several threads: the same plan as one by one."""

from __future__ import annotations

import itertools

import pytest

from tests.modules import text
from tests.search.problems import gemma_problem, problem_of
from toast.costmodel.evaluator import State
from toast.search.beam import beam
from toast.search.greedy_and_random import greedy
from toast.search.local_search import local_search, touched_sites, worth
from toast.search.neighbours import Space
from toast.search.problem import Problem, SearchSettings, chunks
from toast.search.progress import Control
from toast.search.symmetric_groups import moves

LEAST = 1e-06
CHUNK = 128


def improved_one_by_one(problem: Problem, state: State, cost: float) -> State:
    """The local search without chunks."""
    space = Space(problem)
    sites = space.sites()
    pending = dict.fromkeys(range(len(sites)))
    while pending:
        number = next(iter(pending))
        del pending[number]
        priced = [(other, problem.cost(other)[0]) for other in sites[number].changes(state)]
        best = min(priced, key=worth, default=(state, cost))
        if worth(best) < worth((state, cost)) * (1 - LEAST):
            changed = {action.group for action in set(best[0]) ^ set(state)}
            near = space.near(changed.union(sites[number].groups))
            pending |= dict.fromkeys(touched_sites(sites, near))
            state, cost = best
    return state


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_the_local_search_takes_the_same_changes_as_one_by_one(name: str, threads: int) -> None:
    problem = problem_of(text(name), "a=2,b=2")
    for start in itertools.islice(itertools.permutations(problem.actions, 2), 12):
        cost, _ = problem.cost(start)
        found = local_search(problem, start, cost, Control(), threads=threads)
        assert found.state == improved_one_by_one(problem, start, cost)
        assert found.cost == problem.cost(found.state)[0]


@pytest.mark.parametrize("planner", [beam, greedy])
def test_threads_change_nothing(planner: object) -> None:
    assert callable(planner)
    one, two = (
        planner(gemma_problem(), SearchSettings(rollouts=2000, threads=threads), Control())
        for threads in (1, 2)
    )
    assert one == two


def test_a_beam_prices_no_more_states_than_it_may() -> None:
    found = beam(gemma_problem(), SearchSettings(rollouts=CHUNK + 3), Control())
    assert found.evaluations == CHUNK + 3
    assert found.termination == "rollouts"


def test_chunks_are_the_states_in_their_order() -> None:
    states = [tuple(gemma_problem().actions[:n]) for n in range(5)] * CHUNK
    cut = list(chunks(states))
    assert [state for chunk in cut for state in chunk] == states
    assert [len(chunk) for chunk in cut] == [CHUNK] * 5


def test_costs_of_a_problem_are_those_of_each_state() -> None:
    problem = gemma_problem()
    states = [(action,) for action in problem.actions]
    assert problem.costs(states, 2) == [problem.cost(state) for state in states]


def test_moves_of_symmetric_groups_hold_every_action_once() -> None:
    problem = gemma_problem()
    flat = [action for move in moves(problem) for action in move]
    assert sorted(flat) == sorted(problem.actions)
