"""Explanations in the words of the source: layer groups, reasons, sums and limits of size."""

from __future__ import annotations

from functools import cache

import pytest

from examples import gemma
from tests.toast.explained import Loaded, loaded, step
from toast.analysis.locations import Locations
from toast.costmodel.evaluator import State
from toast.labels.layers import NO_GROUP, Layers
from toast.plans.explanation import Explanation
from toast.search.actions import action_space

MAX_POINTS = 120
MAX_ROWS = 20


@cache
def tiny() -> Loaded:
    return loaded(gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode())


@cache
def state() -> State:
    every = action_space(tiny().problem.evaluator)
    return every[:2] + every[5:7]


@cache
def explained(rows: int = MAX_ROWS) -> Explanation:
    explainer = tiny().explainer
    return explainer.explanation(tiny().terms(state()), rows)


def test_each_product_belongs_to_the_weight_that_it_reads_or_whose_gradient_it_makes() -> None:
    source = tiny().source
    program, layers = source.program, Layers(source.program)
    found: dict[str, set[str]] = {}
    for op in range(program.ops):
        if program.kind(op) == "stablehlo.dot_general":
            equation = Locations(source)[op].label.split("jvp(")[1].split(")")[0]
            found.setdefault(equation, set()).add(layers.of_op(op).split("'")[-2])
    assert found["bsd,dnh->bsnh"] == {"query"}
    assert found["btd,dh->bth"] == {"key", "value"}
    assert found["bsnh,nhd->bsd"] == {"output"}
    assert found["bsd,df->bsf"] == {"gate", "up"}
    assert found["bsf,fd->bsd"] == {"down"}
    assert found["bsd,vd->bsv"] == {"embedding"}


def test_moments_belong_to_their_weight_and_layers_are_starred() -> None:
    program = tiny().source.program
    layers = Layers(program)
    named = {argument.name: layers.of_value(argument.value) for argument in program.arguments}
    for kind in ("params", "mu", "nu"):
        name = f"state['{kind}']['layers'][0]['gate']"
        assert named[name] == "state['params']['layers'][*]['gate']"
    assert named["batch['tokens']"] == "batch['tokens']"


def test_ops_without_any_argument_have_no_group() -> None:
    data = (
        b"func.func @main() -> tensor<4xf32> {"
        b" %x = stablehlo.iota dim = 0 : tensor<4xf32>"
        b" %y = stablehlo.sine %x : tensor<4xf32>"
        b" return %y : tensor<4xf32> }"
    )
    program = loaded(data, mesh="a=2").source.program
    layers = Layers(program)
    assert {layers.of_op(op) for op in range(program.ops)} == {NO_GROUP}


@pytest.mark.parametrize("rows", [1, 4, MAX_ROWS, 10_000])
def test_rows_and_their_rest_are_the_figures_of_the_plan(rows: int) -> None:
    cost, plan = tiny().problem.evaluator.cost(state()), explained(rows)
    fusions = sum(row.seconds for row in plan.fusions) + plan.other_fusions.seconds
    assert fusions == pytest.approx(cost.compute, rel=1e-12)
    collectives = sum(row.seconds for row in plan.collectives) + plan.other_collectives.seconds
    assert collectives == pytest.approx(cost.communication, rel=1e-12)
    assert sum(row.bytes for row in plan.alive) + plan.other_alive.bytes == cost.peak
    groups = [*plan.layers, plan.other_layers]
    assert sum(row.compute_seconds for row in groups) == pytest.approx(cost.compute)
    assert sum(row.communication_seconds for row in groups) == pytest.approx(cost.communication)
    assert sum(row.peak_bytes for row in groups) == cost.peak
    assert plan.peak.bytes == max(point.bytes for point in plan.timeline) == cost.peak
    assert max(len(plan.fusions), len(plan.collectives), len(plan.alive), len(plan.layers)) <= rows


def test_rows_come_largest_first() -> None:
    plan = explained(10_000)
    for seconds in ([row.seconds for row in plan.fusions], [r.seconds for r in plan.collectives]):
        assert seconds == sorted(seconds, reverse=True)
    sizes = [row.bytes for row in plan.alive]
    assert sizes == sorted(sizes, reverse=True)


def test_the_size_in_a_plan_is_bounded() -> None:
    plan = explained()
    assert len(plan.timeline) <= MAX_POINTS
    assert len(plan.model_dump_json()) < 40_000


def test_equal_layers_share_a_row_with_its_place_and_direction() -> None:
    row = next(row for row in explained().fusions if row.place == "mlp" and row.op == "dot_general")
    assert row.location.startswith("gemma.py:")
    assert row.direction in ("forward", "backward")
    assert row.fusions % gemma.PRESETS["tiny"].layers == 0


def test_collectives_say_what_is_sent_for_what_and_why() -> None:
    rows = explained(10_000).collectives
    assert {row.why for row in rows} == {"partial_sum", "resharding"}
    for row in rows:
        assert row.axes
        assert row.value
        assert row.needed_by
        assert (row.value == row.needed_by) or row.why != "partial_sum"


def test_reasons_of_what_is_alive() -> None:
    module = loaded(step())
    plan = module.explainer.explanation(module.terms(()))
    reasons = {(row.name, row.why) for row in plan.alive}
    assert ("p['first']", "argument") in reasons
    assert ("x", "argument") in reasons
    assert ("tanh", "saved_for_backward") in {(name.split("/")[-1], why) for name, why in reasons}
    assert any(why == "result" for _, why in reasons)


def test_a_gathered_weight_is_a_resharded_copy() -> None:
    module = loaded(step())
    split = (module.action("x", 0, 0), module.action("second", 1, 0))
    explainer = module.explainer
    terms = module.terms(split)
    names = {
        (explainer.say.name(held.value), explainer.alive_row([held], terms).why)
        for held in terms.held
    }
    assert ("p['second']", "resharded_copy") in names


def test_a_module_without_locations_is_explained_by_its_ops() -> None:
    data = (
        b"func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {"
        b" %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]"
        b" : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>"
        b" return %y : tensor<8x8xf32> }"
    )
    module = loaded(data, mesh="a=2")
    plan = module.explainer.explanation(module.terms(()))
    (row,) = plan.fusions
    assert (row.op, row.direction, row.fusions) == ("dot_general", "", 1)
    assert plan.peak.op == "dot_general with arg0"


def test_what_a_loop_carries() -> None:
    from tests.costmodel.explained import LOOP

    module = loaded(LOOP, mesh="a=2")
    explainer, terms = module.explainer, module.terms(())
    why = {explainer.alive_row([held], terms).why for held in terms.held}
    assert why & {"loop_carry", "result"}
    assert "argument" in why


def test_fusions_are_summed_as_one_by_one() -> None:
    """To the last bit: parts of equal fusions are added in their order."""
    explainer = tiny().explainer
    terms, say = tiny().terms(state()), explainer.say
    sums: dict[tuple[object, ...], list[float]] = {}
    for fusion in terms.fusions:
        whole = sum(runs for _, runs in fusion.sources)
        for ops, runs in fusion.sources:
            op, part = ops[0], runs / whole
            place = (say.kind(op), say.place(op), say.line(op), say.direction(op), say.layer(op))
            key = (*place, fusion.bound.name.lower(), fusion.unfused)
            found = sums.setdefault(key, [0, 0.0, 0.0, 0.0])
            found[0] += 1
            found[1] += fusion.runs * part
            found[2] += fusion.bytes * part
            found[3] += fusion.seconds * part
    rows = explainer.explanation(terms, len(sums)).fusions
    found_rows = {
        (row.op, row.place, row.location, row.direction, row.group, row.bound, row.partial_sums): [
            row.fusions,
            row.runs,
            row.bytes,
            row.seconds,
        ]
        for row in rows
    }
    assert found_rows == {
        key: [number, round(count), round(size), seconds]
        for key, (number, count, size, seconds) in sums.items()
    }


def test_ops_of_one_name_and_location_have_the_same_words() -> None:
    source, say = tiny().source, tiny().explainer.say
    known: dict[tuple[str, int], int] = {}
    for op in range(source.program.ops):
        place = (source.program.kind(op), int(source.places[op]))
        assert known.setdefault(place, int(say.origin[op])) == say.origin[op]
    assert len(set(known.values())) == len(known) < source.program.ops
