"""Decisions below the colour level: where they are open, which are taken, and what they respect."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import pytest

from tests.modules import analysed, argument_group, value_named
from toast.costmodel.evaluator import Action, Evaluator, Refined, Refinement, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.program.buffers import loop_slots
from toast.costmodel.program.pins import NO_PINS, Pins
from toast.costmodel.program.sharding_units import Marks
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.search.actions import action_space
from toast.search.decision_sites import SiteMembers, Thing, decision_sites, marks
from toast.search.problem import Found, Problem
from toast.search.progress import Control
from toast.search.refine import refine
from toast.search.refinement_moves import Refinements
from toast.search.set_resolutions import set_resolutions

MAX_EVALUATIONS = 600


@cache
def training() -> bytes:
    """A step of momentum: weight and momentum are donated, and come back as results 0 and 1."""

    def step(w: jax.Array, m: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        gradient = jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)
        moved = 0.9 * m + gradient
        return w - 0.1 * moved, moved

    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((32, 64), (32, 64), (8, 32))]
    return jax.jit(step, donate_argnums=(0, 1)).lower(*shapes).as_text().encode()


@cache
def looping() -> bytes:
    """Four layers in a loop."""

    def step(x: jax.Array, ws: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0]

    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 16), (4, 16, 16))]
    return jax.jit(step).lower(*shapes).as_text().encode()


@cache
def training_loop() -> bytes:
    """The gradient of four layers in a loop."""

    def loss(ws: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0])

    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((4, 16, 16), (8, 16))]
    return jax.jit(jax.grad(loss)).lower(*shapes).as_text().encode()


@cache
def two_squares() -> bytes:
    """Two products of rows with rows: their conflicts are isomorphic."""

    def step(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sum(jnp.sin(x @ x.T)), jnp.sum(jnp.sin(y @ y.T))

    shapes = [jax.ShapeDtypeStruct((8, 4), "float32")] * 2
    return jax.jit(step).lower(*shapes).as_text().encode()


def problem_of(module: bytes, mesh: str = "data=4", memory: float = 1e12, pins: Pins = NO_PINS
               ) -> Problem:  # fmt: skip
    evaluator = Evaluator(analysed(module), Mesh.parse(mesh), find("cpu"), pins)
    return Problem(evaluator=evaluator, reward=evaluator.reward(memory), actions=())


def found(problem: Problem, state: State = ()) -> Found:
    return Found.after(state, problem.cost(state)[0], 1, "converged")


def short(problem: Problem, part: float = 0.5) -> Problem:
    """The same with memory for a part of the unsharded peak."""
    peak = problem.evaluator.cost(()).peak
    return Problem(
        evaluator=problem.evaluator, reward=problem.evaluator.reward(peak * part), actions=()
    )


def finer(problem: Problem, state: State = ()) -> tuple[Evaluator, Refinements]:
    """An evaluator in which every place has its own units, and the refinements left open."""
    things = SiteMembers(problem.evaluator)
    values: list[Thing] = [
        ("value", value) for value in range(problem.evaluator.analysis.program.values)
    ]
    spots, sets = (
        decision_sites(things, values, 1_000),
        set_resolutions(problem.evaluator, state, things),
    )
    fine = marks([spot.things for spot in spots], [side.things for side in sets])
    evaluator = problem.evaluator.marked(fine)
    return evaluator, Refinements(evaluator, things, spots, sets)


def test_where_memory_is_short_parameters_are_sharded_that_no_action_shards() -> None:
    problem = short(problem_of(training()))
    better, result = refine(problem, found(problem), Control())
    before, after = problem.evaluator.cost(()), better.evaluator.cost(result.decisions)
    assert result.refinements
    assert after.peak < 0.9 * before.peak
    assert result.cost == better.value(result.decisions) < problem.cost(())[0]
    specs, program = (
        Specs(resolve(better.evaluator, result.decisions)),
        better.evaluator.analysis.program,
    )
    sharded = [argument for argument in program.arguments if any(specs.value(argument.value))]
    assert sharded
    for argument in sharded:
        if argument.aliases >= 0:
            use = program.results[argument.aliases].use
            assert specs.use(use) == specs.value(argument.value)


def test_what_is_pinned_or_forbidden_stays() -> None:
    weight, momentum, _ = analysed(training()).program.arguments
    pins = Pins(values={weight.value: ((), ())}, forbidden={momentum.value: 1})
    problem = short(problem_of(training(), pins=pins))
    better, result = refine(problem, found(problem), Control())
    specs = Specs(resolve(better.evaluator, result.decisions))
    assert result.refinements
    assert not any(specs.value(weight.value) + specs.value(momentum.value))


def test_no_refinement_moves_what_is_pinned_or_forbidden() -> None:
    weight, momentum, _ = analysed(training()).program.arguments
    pins = Pins(values={weight.value: ((0,), ())}, forbidden={momentum.value: 1})
    evaluator, refinements = finer(problem_of(training(), pins=pins))
    fixed = [int(evaluator.layouts.value_unit[each.value]) for each in (weight, momentum)]
    there = refinements.open(evaluator.masks(()))
    assert there
    assert not [
        refinement for refinement in there if {unit for unit, _ in refinement.places} & set(fixed)
    ]
    # nor does the evaluator let anybody else
    asked = (Refinement(axis=0, places=tuple((unit, item) for unit in fixed for item in (-1, 1))),)
    assert evaluator.cost(asked).key == evaluator.cost(()).key


@pytest.mark.parametrize("memory", [1e12, 1.0])
def test_nothing_is_refined_where_no_refinement_pays(memory: float) -> None:
    problem = problem_of(training(), mesh="data=3", memory=memory)
    start = found(problem)
    better, result = refine(problem, start, Control())
    assert better is problem
    assert result == replace(start, evaluations=result.evaluations)


def test_a_search_that_was_stopped_is_not_refined() -> None:
    problem = short(problem_of(training()))
    start = found(problem)
    stopped = Control(cancelled=lambda: True)
    assert refine(problem, start, stopped) == (problem, start)


def test_a_cancel_is_heard_while_finer_tables_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, left = threading.Event(), threading.Event()
    make = Evaluator.marked

    def slow(evaluator: Evaluator, fine: Marks) -> Evaluator:
        begun.set()
        left.wait(30)
        return make(evaluator, fine)

    monkeypatch.setattr(Evaluator, "marked", slow)
    problem = short(problem_of(training()))
    start = found(problem)
    assert refine(problem, start, Control(cancelled=begun.is_set)) == (problem, start)
    assert begun.is_set()
    left.set()


def test_the_number_of_evaluations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toast.search.refine.MAX_EVALUATIONS", 20)
    problem = short(problem_of(training()))
    _, result = refine(problem, found(problem), Control())
    assert MAX_EVALUATIONS > 20
    assert result.evaluations <= 1 + 2 * 20 + 1


def test_refined_states_cost_the_same_whatever_was_priced_before() -> None:
    evaluator, refinements = finer(problem_of(training(), mesh="data=2,model=2"))
    there = refinements.open(evaluator.masks(()))
    states: list[Refined] = [(), *((one,) for one in there), *pairwise(there)]
    expected = [evaluator.cost(state, evaluator.new_scratch()) for state in states]
    assert len({cost.key for cost in expected}) > 10
    assert [evaluator.cost(state) for state in states] == expected
    assert evaluator.costs(states, threads=2) == expected


def test_places_leave_the_price_of_whole_colours_alone() -> None:
    """A loop passes on each of its tensors by itself: its ends do not compete for axes."""
    problem = problem_of(training_loop(), mesh="data=2,model=2")
    things, program = SiteMembers(problem.evaluator), problem.evaluator.analysis.program
    seeds: list[Thing] = [("op", op) for op in range(program.ops)]
    assert list(loop_slots(program))
    fine = problem.evaluator.marked(
        marks([one.things for one in decision_sites(things, seeds, 1_000)])
    )
    actions = action_space(problem.evaluator)
    for state in (*itertools.combinations(actions, 1), *itertools.combinations(actions, 2)):
        before, after = problem.evaluator.cost(state), fine.cost(state)
        assert after.peak == before.peak
        assert after.seconds == pytest.approx(before.seconds, rel=1e-12)


def test_a_bound_on_whole_colours_is_not_one_on_refinements() -> None:
    problem = short(problem_of(training()))
    start = replace(found(problem), bound=0.5, relaxation="branch and bound")
    _, result = refine(problem, start, Control())
    assert result.refinements
    assert (result.bound, result.relaxation) == (None, None)


def test_refined_states_are_not_on_the_front() -> None:
    problem = short(problem_of(training()))
    start = found(problem)
    before = problem.front.points()
    _, result = refine(problem, start, Control())
    assert result.refinements
    assert problem.front.points() == before


def test_refining_is_repeatable() -> None:
    problem = short(problem_of(training(), mesh="data=2,model=2"))
    one, two = (refine(problem, found(problem), Control())[1] for _ in range(2))
    assert one == two


def test_all_ends_of_what_a_loop_carries_have_one_layout() -> None:
    problem = problem_of(looping())
    group = argument_group(problem.evaluator.analysis, 0, 0)
    state = (Action(group=group, axis=0),)
    evaluator, refinements = finer(problem, state)
    program, tried = problem.evaluator.analysis.program, 0
    slots = list(loop_slots(program))
    for refinement in refinements.open(evaluator.masks(state)):
        specs = Specs(resolve(evaluator, (*state, refinement)))
        for slot in slots:
            ends = (slot.condition, slot.body, slot.result)
            assert len({str(specs.value(end)) for end in ends}) == 1
        tried += specs.value(slots[0].body) != Specs(resolve(evaluator, state)).value(slots[0].body)
    assert slots
    assert tried


def test_one_set_is_resolved_otherwise_than_its_isomorphic_ones() -> None:
    problem = problem_of(two_squares())
    analysis = problem.evaluator.analysis
    state: State = (Action(group=argument_group(analysis, 0, 0), axis=0),)
    assert analysis.groups.sets < analysis.conflicts.sets == 2
    evaluator, refinements = finer(problem, state)
    swap = refinements.open(evaluator.masks(state))[0]
    before, after = _sines(evaluator, state), _sines(evaluator, (*state, swap))
    assert before[0] == before[1]
    assert after[0] != after[1]
    assert sorted(after[0]) == sorted(after[1])
    assert before[0] in after


def _sines(evaluator: Evaluator, decisions: Refined) -> list[list[list[str]]]:
    specs, program = Specs(resolve(evaluator, decisions)), evaluator.analysis.program
    return [specs.value(value_named(program, "stablehlo.sine", nth)) for nth in (0, 1)]


@pytest.mark.parametrize("place", [(10_000, 0), (0, 99), (-1, 0), (0, -2)])
def test_a_refinement_of_another_program_is_refused(place: tuple[int, int]) -> None:
    evaluator = problem_of(training()).evaluator
    with pytest.raises(IndexError):
        evaluator.cost((Refinement(axis=0, places=(place,)),))


def test_a_place_takes_its_axis_only_where_it_divides() -> None:
    evaluator, _ = finer(problem_of(two_squares(), mesh="data=3"))
    unit = int(evaluator.layouts.value_unit[0])
    assert evaluator.cost((Refinement(axis=0, places=((unit, 0),)),)).key == evaluator.cost(()).key
