"""The ILP over states: every state is a choice of the relaxation, and costs at least as much."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import gemma
from tests.costmodel.profiles import holding
from tests.costmodel.texts import main, product
from tests.modules import analysed, text
from tests.search.problems import gemma_problem, problem_of
from toast.costmodel.evaluator import Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.search.actions import action_space
from toast.search.pairwise.instance import score
from toast.search.pairwise.solve import solve
from toast.search.planners import PLANNERS
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control
from toast.search.relaxation import Relaxation

PROVED = ("branch and bound", "linear relaxation")


def short_of_memory(problem: Problem, part: float) -> Problem:
    limit = problem.reward.peak * part
    return replace(problem, reward=problem.evaluator.reward(limit))


def random_state(problem: Problem, random: np.random.Generator) -> State:
    picks = random.integers(len(problem.actions), size=int(random.integers(0, 6)))
    return tuple(problem.actions[pick] for pick in picks)


@pytest.mark.parametrize("name", ["mlp", "attention", "transpose", "gemma"])
@pytest.mark.parametrize("part", [2.0, 0.5])
def test_every_state_is_a_choice_that_costs_no_more(name: str, part: float) -> None:
    problem = gemma_problem() if name == "gemma" else problem_of(text(name), "a=2,b=4")
    problem = short_of_memory(problem, part)
    random = np.random.default_rng(3)
    relaxation = Relaxation(problem, random_state(problem, random))
    instance = relaxation.instance()
    for _ in range(40):
        state = random_state(problem, random)
        found = score(instance, relaxation.choice(state))
        assert found.feasible
        assert found.cost <= problem.cost(state)[0] * (1 + 1e-9)


@pytest.mark.parametrize("buffers", [0, 2**14, 2**18, 2**25])
def test_no_state_is_cheaper_where_the_chip_itself_holds_a_part(buffers: int) -> None:
    data = gemma.lower(replace(gemma.PRESETS["tiny"], batch=16)).as_text(debug_info=True).encode()
    chip, mesh = find("tpu-v5e"), Mesh.parse("data=2,model=8")
    evaluator = Evaluator(analysed(data), mesh, chip, profile=holding("tpu-v5e", buffers))
    problem = Problem(
        evaluator=evaluator, reward=evaluator.reward(1e12), actions=action_space(evaluator)
    )
    random = np.random.default_rng(5)
    for part in (0.9, 0.5, 0.2):
        problem = short_of_memory(problem, part)
        relaxation = Relaxation(problem, random_state(problem, random))
        instance = relaxation.instance()
        for _ in range(15):
            state = random_state(problem, random)
            found = score(instance, relaxation.choice(state))
            assert found.cost <= problem.cost(state)[0] * (1 + 1e-9)


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p"])
@pytest.mark.parametrize("side", [512, 32768])
def test_no_state_is_cheaper_wherever_products_start(side: int, device: str) -> None:
    """Those on the chip start sooner on a v5e than those from main memory, and later on a v5p."""
    x, w = f"128x{side}xf32", f"{side}x{side}xf32"
    module = main(f"x:{x} w:{w}", [product(f"y:{x}", f"x:{x}", f"w:{w}")], f"y:{x}")
    evaluator = Evaluator(analysed(module), Mesh.parse("a=2"), find(device))
    problem = Problem(
        evaluator=evaluator, reward=evaluator.reward(1e12), actions=action_space(evaluator)
    )
    relaxation = Relaxation(problem)
    instance = relaxation.instance()
    for state in [(), *((action,) for action in problem.actions)]:
        found = score(instance, relaxation.choice(state))
        assert found.cost <= problem.cost(state)[0] * (1 + 1e-9)


def test_the_relaxation_of_plain_products_is_exact() -> None:
    problem = problem_of(chain([64, 32, 16], relu=False), "a=2,b=2")
    relaxation = Relaxation(problem)
    instance = relaxation.instance()
    for action in problem.actions:
        relaxed = score(instance, relaxation.choice((action,))).cost
        assert relaxed == pytest.approx(problem.cost((action,))[0])


def test_actions_come_back_from_their_choice() -> None:
    problem = problem_of(text("attention"), "a=2,b=2")
    relaxation = Relaxation(problem)
    for state in itertools.permutations(problem.actions, 2):
        back = relaxation.actions(relaxation.choice(state))
        pairs = {(action.group, action.axis) for action in state}
        assert {(action.group, action.axis) for action in back} == pairs


DOT = """
func.func public @main({arguments}) -> {result} {{
{body}
  return %y{last} : {result}
}}
"""


def chain(sizes: list[int], relu: bool) -> bytes:
    """A product of matrices of these sizes, with an elementwise op between them or not."""
    types = [f"tensor<{a}x{b}xf32>" for a, b in itertools.pairwise(sizes)]
    arguments = ", ".join(f"%a{n}: {kind}" for n, kind in enumerate(types))
    lines, last, kind = [], "%a0", types[0]
    for n in range(1, len(types)):
        result = f"tensor<{sizes[0]}x{sizes[n + 1]}xf32>"
        lines.append(
            f"  %x{n} = stablehlo.dot_general {last}, %a{n}, contracting_dims = [1] x [0]"
            f" : ({kind}, {types[n]}) -> {result}"
        )
        op = "tanh" if relu else "negate"
        lines.append(f"  %y{n} = stablehlo.{op} %x{n} : {result}")
        last, kind = f"%y{n}", result
    return DOT.format(
        arguments=arguments, body="\n".join(lines), last=len(types) - 1, result=kind
    ).encode()


@given(
    sizes=st.lists(st.sampled_from([2, 6, 16, 64]), min_size=3, max_size=4),
    relu=st.booleans(),
    part=st.sampled_from([0.4, 0.7, 2.0]),
    mesh=st.sampled_from(["a=2", "a=2,b=2"]),
)
@settings(max_examples=15)
def test_no_state_is_cheaper_than_the_bound(
    sizes: list[int], relu: bool, part: float, mesh: str
) -> None:
    problem = short_of_memory(problem_of(chain(sizes, relu), mesh), part)
    best = min(
        problem.cost(state)[0]
        for length in range(4)
        for state in itertools.permutations(problem.actions, length)
    )
    found = PLANNERS["ilp"](problem, SearchSettings(), Control())
    assert found.cost == problem.cost(found.state)[0]
    if problem.actions:
        assert found.bound is not None
        assert found.bound <= best
        assert found.bound <= found.cost
        assert found.relaxation in PROVED


def test_the_ilp_planner_is_no_worse_than_greedy_and_knows_its_gap() -> None:
    problem = problem_of(text("attention"), "a=2,b=2")
    greedy = PLANNERS["greedy"](problem, SearchSettings(), Control())
    found = PLANNERS["ilp"](problem, SearchSettings(), Control())
    assert found.cost <= greedy.cost * (1 + 1e-3)
    assert found.bound is not None
    assert found.bound <= found.cost


def test_a_budget_ends_the_ilp() -> None:
    found = PLANNERS["ilp"](gemma_problem(), SearchSettings(), Control(budget=0.5))
    assert found.termination in ("budget", "converged")
    assert found.cost == gemma_problem().cost(found.state)[0]


def test_an_answer_of_the_relaxation_fits_where_it_says_so() -> None:
    problem = short_of_memory(problem_of(text("mlp"), "a=2,b=4"), 0.5)
    relaxation = Relaxation(problem)
    instance = relaxation.instance()
    answer = solve(instance, seconds=20)
    assert answer.proved
    assert answer.choice is not None
    state = relaxation.actions(answer.choice)
    assert problem.cost(state)[0] >= answer.cost * (1 - 1e-9)


@pytest.mark.parametrize("name", ["mlp", "attention", "gemma"])
def test_a_beam_of_one_is_greedy_or_better_and_a_wider_one_no_worse(name: str) -> None:
    problem = gemma_problem() if name == "gemma" else problem_of(text(name), "a=2,b=2")
    greedy = PLANNERS["greedy"](problem, SearchSettings(), Control())
    narrow, wide = (
        PLANNERS["beam"](problem, SearchSettings(beam_width=width), Control()) for width in (1, 16)
    )
    assert narrow.cost <= greedy.cost * (1 + 1e-9)
    assert wide.cost <= greedy.cost * (1 + 1e-9)
    assert narrow.evaluations <= wide.evaluations
    assert wide.cost == problem.cost(wide.state)[0]


def test_a_beam_keeps_its_count_of_evaluations() -> None:
    found = PLANNERS["beam"](gemma_problem(), SearchSettings(rollouts=100), Control())
    assert found.evaluations <= 100
    assert found.termination == "rollouts"
