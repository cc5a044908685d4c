"""Plans with refinements: written into the module, done by XLA as predicted, named in the plan."""

from __future__ import annotations

import io
from collections import Counter
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from rich.console import Console

from examples import gemma
from tests.modules import argument_group, value_named
from tests.toast.samples import ORIGINAL, write_plan_directory
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Action, Evaluator, Refined, Refinement, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.emit.writer import write
from toast.explain.refinements import refinements
from toast.labels.decisions import costs_after, decision_names, decisions
from toast.labels.labels import Labels
from toast.pipeline.plan_module import make_plan
from toast.plans import report
from toast.plans.choices import request_of
from toast.plans.plan import Plan
from toast.request.request import PlanRequest
from toast.search.decision_sites import DecisionSite, SiteMembers, decision_sites, marks
from toast.search.problem import Problem
from toast.search.progress import Progress
from toast.verify.verification import verify

MESH = Mesh.parse("data=2,model=2")


@cache
def refined() -> tuple[Evaluator, State, tuple[DecisionSite, ...]]:
    """The layout of the sample plan, in an evaluator where its product and its sum stand alone."""
    evaluator = Evaluator(analyse(load(ORIGINAL.encode()).program), MESH, find("cpu"))
    analysis = evaluator.analysis
    rows, columns = argument_group(analysis, 0, 0), argument_group(analysis, 1, 1)
    state = (Action(group=rows, axis=0), Action(group=columns, axis=1))
    value = value_named(analysis.program, "stablehlo.dot_general")
    reduce = int(analysis.program.value_op[value_named(analysis.program, "stablehlo.reduce")])
    product = int(analysis.program.value_op[value])
    seeds = [("value", value), ("op", reduce), ("op", product)]
    spots = decision_sites(SiteMembers(evaluator), seeds, 3)
    return evaluator.marked(marks([spot.things for spot in spots])), state, tuple(spots)


def unit_of(number: int) -> int:
    """The unit of the product's value, of the sum, of the product."""
    layouts = refined()[0].layouts
    kind, thing = refined()[2][number].first
    return int(layouts.op_unit[thing] if kind == "op" else layouts.value_unit[thing])


def predicted(evaluator: Evaluator, taken: Refined) -> dict[str, int]:
    """Collectives by kind, as XLA writes them here: a sum over two axes is two."""
    found: Counter[str] = Counter()
    for row in resolve(evaluator, taken).totals():
        found[row.kind.name.lower()] += round(row.count) * len(row.axes)
    return dict(found)


@pytest.mark.parametrize(
    ("number", "item", "kinds"),
    [
        (None, 0, {"all_reduce"}),
        (0, -1, {"all_gather", "all_reduce"}),  # the product is gathered where it is made
        (1, -1, {"all_gather", "all_reduce"}),  # only the sum is made of the whole
        (2, -1, {"all_gather", "all_reduce"}),  # the product is computed whole along `model`
    ],
)
def test_the_compiled_program_has_the_predicted_collectives(
    tmp_path: Path, number: int | None, item: int, kinds: set[str]
) -> None:
    evaluator, state, _ = refined()
    taken: Refined = state
    if number is not None:
        taken = (*state, Refinement(axis=1, places=((unit_of(number), item),)))
    specs = Specs(resolve(evaluator, taken))
    sharded = write(load(ORIGINAL.encode()), MESH, specs, specs.constraints()).decode()
    result = verify(write_plan_directory(tmp_path, sharded=sharded))
    assert result.verdict == "equal"
    assert result.collectives == predicted(evaluator, taken)
    assert set(result.collectives) == kinds


def test_a_refinement_is_named_with_what_it_bought() -> None:
    evaluator, state, _ = refined()
    source = load(ORIGINAL.encode())
    problem = Problem(evaluator=evaluator, reward=evaluator.reward(1e12), actions=())
    whole = Refinement(axis=1, places=((unit_of(0), -1), (unit_of(2), 1)))
    resolved = resolve(evaluator, (*state, whole))
    costs, names = costs_after(problem, resolved), decision_names(evaluator.analysis)
    say = Labels(source, evaluator.analysis)
    (row,) = refinements(problem, resolved, costs, say, names)
    assert row.places == [
        "dot_general with w, stored: whole",
        "dot_general with w, computed: dimension 1",
    ]
    assert row.axis == "model"
    assert row.colour == decisions(problem, resolved, costs, names, say.resolutions)[1].colour
    assert (row.step_seconds_after, row.peak_bytes_after) == (costs[2].seconds, costs[2].peak)
    assert row.cost_after == problem.value((*state, whole)) > problem.cost(state)[0]


@cache
def momentum() -> bytes:
    """A step of momentum whose weight and momentum are donated."""

    def step(w: jax.Array, m: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        moved = 0.9 * m + jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)
        return w - 0.1 * moved, moved

    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((32, 64), (32, 64), (8, 32))]
    return jax.jit(step, donate_argnums=(0, 1)).lower(*shapes).as_text().encode()


def asked(**changes: object) -> PlanRequest:
    """With a memory that the unsharded state does not fit into."""
    fields: dict[str, object] = {"mesh": "data=4", "device": "cpu", "threads": 1, "memory": 16_000}
    return PlanRequest.model_validate(fields | changes)


def test_a_plan_is_refined_on_request() -> None:
    plain = make_plan(momentum(), asked(decisions=())).plan
    seen: list[Progress] = []
    plan = make_plan(momentum(), asked(decisions=(), refine=True), on_progress=seen.append).plan
    assert plain.decisions == []
    assert plain.predicted.peak_bytes > plan.predicted.peak_bytes
    assert plan.decisions
    for row in plan.decisions:
        assert row.places
        assert row.axis == "data"
    assert plan.decisions[-1].cost_after == plan.search.cost < plain.search.cost
    assert any(axes for tensor in plan.arguments for axes in tensor.spec)
    assert "refine" in {progress.stage for progress in seen}
    assert plan.stages["refine"] > 0
    assert Plan.from_json(plan.to_json()) == plan
    assert "stored: dimension" in report_of(plan)


def report_of(plan: Plan) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.decisions(plan))
    return console.export_text()


def test_a_search_is_refined_and_its_choices_stay_those_of_whole_colours() -> None:
    module = gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode()
    given = asked(mesh="data=2,model=2", memory=None, planner="greedy")
    plain = make_plan(module, given).plan
    plan = make_plan(module, given.model_copy(update={"refine": True})).plan
    actions = [row for row in plan.decisions if not row.places]
    names = [(row.colour, row.axis, row.resolution) for row in actions]
    assert names == [(row.colour, row.axis, row.resolution) for row in plain.decisions]
    assert len(plan.decisions) > len(actions)
    assert plan.search.cost < 0.995 * plain.search.cost
    assert plan.predicted.step_seconds < plain.predicted.step_seconds
    assert [row.decisions for row in plan.choices] == [row.decisions for row in plain.choices]
    number = [row.chosen for row in plan.choices].index(True) + 1
    again = make_plan(module, request_of(plan, number)).plan
    assert again.decisions == plan.decisions
    assert again.predicted == plan.predicted


def test_nothing_is_marked_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Evaluator, "marked")
    assert make_plan(momentum(), asked()).plan.decisions
    assert make_plan(momentum(), asked(decisions=())).plan.decisions == []
    with pytest.raises(AttributeError, match="marked"):
        make_plan(momentum(), asked(decisions=(), refine=True))


def test_a_plan_that_could_not_be_refined_says_so() -> None:
    stopped = make_plan(momentum(), asked(refine=True), cancelled=lambda: True).plan
    assert any("Nothing was refined" in warning for warning in stopped.warnings)
