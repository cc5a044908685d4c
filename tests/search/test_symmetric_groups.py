"""Groups that are alike are moved as one."""

from __future__ import annotations

from examples.forms import serialize
from tests.search.known_layouts.steps import mlp_training
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.search.actions import action_space
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control
from toast.search.symmetric_groups import moves, symmetric_start


def _problem(tokens: int) -> Problem:
    step = mlp_training(layers=2, width=8192, hidden=32768, tokens=tokens)
    evaluator = Evaluator(
        analyse(load(serialize(step, "bytecode")).program),
        Mesh.parse("data=4,model=2"),
        find("tpu-v5e"),
    )
    reward = evaluator.reward(float(find("tpu-v5e").plannable_bytes))
    return Problem(evaluator=evaluator, reward=reward, actions=action_space(evaluator))


def test_moves_are_all_actions_once_and_join_the_hidden_dimensions_of_both_layers() -> None:
    problem = _problem(16384)
    found = moves(problem)
    flat = [action for move in found for action in move]
    assert sorted(flat) == sorted(problem.actions)
    assert sorted(map(len, found)) == [1, 1, 1, 1, 2, 2]


def test_rows_are_not_like_hidden_dimensions_of_the_same_size() -> None:
    assert sorted(map(len, moves(_problem(32768)))) == [1, 1, 1, 1, 2, 2]


def test_a_start_is_priced_as_the_evaluator_prices_it_and_pays() -> None:
    problem = _problem(32768)
    found = symmetric_start(problem, SearchSettings(beam_width=4), Control())
    assert found.cost == problem.cost(found.state)[0] < problem.cost(())[0]
    assert len(set(found.state)) == len(found.state)


def test_a_cancelled_start_has_the_best_so_far() -> None:
    problem = _problem(32768)
    found = symmetric_start(problem, SearchSettings(), Control(cancelled=lambda: True))
    assert (found.state, found.cost) == ((), problem.cost(())[0])
