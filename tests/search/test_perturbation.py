"""Perturbation leads out of states that no single change improves."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.models import makers
from tests.search.known_layouts.planned import problem_of
from tests.search.problems import gemma_problem
from toast.search.local_search import local_search, worth
from toast.search.neighbours import Space
from toast.search.perturbation import perturbation_units, perturbed
from toast.search.progress import Control


def test_nodes_of_a_graph_are_split_together_with_what_meets_them() -> None:
    """Two steps of a graph network: no single change leaves the state that is found first."""
    problem = problem_of(makers()["gns_2"](), "data=2,model=4")
    start = local_search(problem, (), problem.cost(())[0], Control())
    again = local_search(problem, start.state, start.cost, Control())
    assert again.cost > start.cost * 0.999
    found = perturbed(problem, start.state, start.cost, Control())
    assert found.cost < start.cost * 0.995
    assert found.cost == problem.cost(found.state)[0]


@pytest.mark.parametrize("most", [0, 50, 400])
def test_perturbing_makes_nothing_worse_and_keeps_its_bound(most: int) -> None:
    problem = gemma_problem()
    state = problem.actions[:1]
    cost, _ = problem.cost(state)
    found = perturbed(problem, state, cost, Control(), most=most)
    assert worth((found.state, found.cost)) <= worth((state, cost))
    assert found.evaluations <= most + 5_000
    assert found.cost == problem.cost(found.state)[0]
    if most == 0:
        assert found.evaluations == 0


def test_a_cancel_leaves_the_state() -> None:
    problem = gemma_problem()
    state = problem.actions[:2]
    cost, _ = problem.cost(state)
    found = perturbed(problem, state, cost, Control(cancelled=lambda: True))
    assert (found.state, found.cost, found.evaluations) == (state, cost, 0)


def test_threads_change_nothing() -> None:
    problem = gemma_problem()
    one, two = (perturbed(problem, (), 1.0, Control(), threads=n, most=500) for n in (1, 2))
    assert one == two


def test_what_meets_most_is_perturbed_first() -> None:
    space = Space(gemma_problem())
    units = perturbation_units(space)
    met = [len(space.near(unit).difference(unit)) for unit in units]
    assert met == sorted(met, reverse=True)
    assert {group for unit in units for group in unit} == set(space.bits)
