"""Layouts that the caller or the module demands are kept to the letter in every plan."""

from __future__ import annotations

import fnmatch
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import gemma
from tests.analysis.fact_modules import MODULE
from toast.analysis.analyse import analyse
from toast.analysis.errors import InvalidRequest
from toast.analysis.load import Source, load
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.emit.writer import write
from toast.pipeline.plan_module import make_plan
from toast.pipeline.user_constraints import demands
from toast.plans.result import PlanResult
from toast.request import patterns
from toast.request.patterns import ArgumentNames, path
from toast.request.request import PlanRequest
from toast.search.actions import action_space

MESH = Mesh.parse("data=2,model=4")


@cache
def gemma_text() -> bytes:
    return gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode()


@cache
def gemma_source() -> Source:
    return load(gemma_text())


def plan(data: bytes, **changes: object) -> PlanResult:
    fields: dict[str, object] = {"mesh": str(MESH), "device": "cpu", "threads": 1, "rollouts": 400}
    return make_plan(data, PlanRequest.model_validate(fields | changes))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("state['params']['layers'][0]['gate']", "state/params/layers/0/gate"),
        ("params.dense.kernel", "params/dense/kernel"),
        ("[0][1]['w']", "0/1/w"),
        ("model[<flat index 3>].w", "model/3/w"),
        ("x", "x"),
    ],
)
def test_paths(name: str, expected: str) -> None:
    assert path(name) == expected


NAMES = [
    "s['params']['a']['kernel']",
    "s['params']['b']['c']['kernel']",
    "s['params']['bias']",
    "x",
]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("params/**/kernel", [0, 1]),
        ("params/*/kernel", [0]),
        ("**/kernel", [0, 1]),
        ("params/b*", [2]),
        ("s['params']['bias']", [2]),
        ("x", [3]),
        ("3", [3]),
        ("s/**", [0, 1, 2]),
        ("params/**", [0, 1, 2]),
        ("params/b/**", [1]),
        ("**/b/*/kernel", [1]),
        ("p*ms/**/k*l", [0, 1]),
        ("x/**", []),
        ("kernel/**", []),
    ],
)
def test_patterns(pattern: str, expected: list[int]) -> None:
    if expected:
        assert ArgumentNames(NAMES).matching(pattern) == expected
        return
    with pytest.raises(InvalidRequest, match="No argument matches"):
        ArgumentNames(NAMES).matching(pattern)


def test_a_pattern_that_matches_nothing_names_what_is_near() -> None:
    with pytest.raises(InvalidRequest) as caught:
        ArgumentNames(NAMES).matching("params/bios")
    assert "s/params/bias" in caught.value.hint
    with pytest.raises(InvalidRequest, match="no argument 9"):
        ArgumentNames(NAMES).matching("9")


def test_long_patterns_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="characters"):
        ArgumentNames(NAMES).matching("a" * 1001)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("**/a/" * 150 + "z", "a/" * 2000), ("*a" * 450 + "z", "a" * 100_000)],
)
@pytest.mark.timeout(20)
def test_no_pattern_takes_exponential_time(pattern: str, name: str) -> None:
    with pytest.raises(InvalidRequest):
        ArgumentNames([name + "b"]).matching(pattern)


STEPS = st.text("ab*", max_size=4)


def test_many_patterns_on_many_arguments_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LOOKS", 10)
    names = ArgumentNames([f"p/{number}" for number in range(4)])
    for number in range(4):
        assert names.matching(f"p/{number}") == [number]  # looked up, however often
    assert names.matching("p/*") == names.matching("p/**") == [0, 1, 2, 3]
    with pytest.raises(InvalidRequest, match="So many patterns are too much for 4 arguments"):
        names.matching("*")


def test_a_digit_that_is_no_number_is_a_name() -> None:
    with pytest.raises(InvalidRequest, match="No argument matches"):
        ArgumentNames(NAMES).matching("²")


def like(pattern: list[str], steps: list[str]) -> bool:
    """The definition, step by step and character by character."""
    if not pattern:
        return not steps
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        taken = range(0 if rest else 1, len(steps) + 1)
        return any(like(rest, steps[count:]) for count in taken)
    return bool(steps) and fnmatch.fnmatchcase(steps[0], first) and like(rest, steps[1:])


@given(
    st.lists(st.one_of(STEPS.filter(lambda s: s not in ("", "**")), st.just("**")), min_size=1),
    st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=6),
)
def test_patterns_mean_what_their_definition_says(pattern: list[str], steps: list[str]) -> None:
    name, text = "/".join(steps), "/".join(pattern)
    wanted = any(like(pattern, steps[start:]) for start in range(len(steps)))
    try:
        found = bool(ArgumentNames([name]).matching(text))
    except InvalidRequest:
        found = False
    assert found == (wanted or text == name)


PINS = ("params/layers/*/down=model,data", "params/embedding=None,data+model")


def test_pins_are_kept_in_the_plan_and_by_the_results_that_share_their_buffers() -> None:
    result = plan(gemma_text(), pins=PINS)
    specs = {tensor.name: tensor.spec for tensor in result.plan.arguments}
    results = {tensor.name: tensor.spec for tensor in result.plan.results}
    for layer in range(2):
        name = f"['params']['layers'][{layer}]['down']"
        assert specs[f"state{name}"] == results[f"result[0]{name}"] == [["model"], ["data"]]
    assert specs["state['params']['embedding']"] == [[], ["data", "model"]]
    assert {pin.target for pin in result.plan.pins if pin.kept and pin.source == "request"} == {
        "state['params']['layers'][0]['down']",
        "state['params']['layers'][1]['down']",
        "state['params']['embedding']",
    }
    assert '{"data", "model"}' in result.module.decode()


@cache
def pinned_evaluator() -> tuple[Evaluator, tuple[Action, ...], dict[int, list[list[str]]]]:
    source = gemma_source()
    found = demands(source, MESH, PINS, ("batch/*=model",))
    evaluator = Evaluator(analyse(source.program), MESH, find("cpu"), found.pins(MESH))
    return evaluator, action_space(evaluator), found.values


@given(st.lists(st.integers(0, 10_000), max_size=6))
def test_no_state_changes_a_pin_or_takes_a_forbidden_axis(numbers: list[int]) -> None:
    evaluator, actions, values = pinned_evaluator()
    state = tuple(actions[n % len(actions)] for n in numbers)
    specs = Specs(resolve(evaluator, state))
    for value, wanted in values.items():
        assert [set(axes) for axes in specs.value(value)] == [set(axes) for axes in wanted]
    for argument in evaluator.analysis.program.arguments:
        if argument.name.startswith("batch"):
            assert not any("model" in axes for axes in specs.value(argument.value))


def test_a_pinned_layout_is_paid_for() -> None:
    free, pinned = plan(gemma_text()), plan(gemma_text(), pins=PINS)
    assert pinned.plan.search.cost >= 0
    assert pinned.plan.predicted.step_seconds >= free.plan.predicted.step_seconds * 0.99


def test_forbidden_axes_are_not_used() -> None:
    result = plan(gemma_text(), forbid=("batch/tokens=data,model",))
    tokens = next(t for t in result.plan.arguments if t.name == "batch['tokens']")
    assert tokens.spec == [[], []]


def test_shardings_of_the_module_are_kept_and_hints_reported() -> None:
    result = plan(MODULE)
    specs = [tensor.spec for tensor in result.plan.arguments]
    assert specs[0] == [[], ["model"]]
    assert specs[2] == [["model"]]
    assert result.plan.results[0].spec == [["model"], []]
    required = [pin for pin in result.plan.pins if pin.required]
    assert all(pin.kept and pin.source == "module" for pin in required)
    (hint,) = [pin for pin in result.plan.pins if not pin.required]
    assert hint.kept == (specs[1] == [["data"], []])
    assert any("overruled" in text for text in result.plan.warnings) != hint.kept
    text = result.module.decode()
    assert "sdy.sharding_constraint %" in text
    assert '[{"data"}, {"model"}]' in text
    assert "@Sharding" not in text


def test_shardings_of_another_mesh_are_dropped_with_a_warning() -> None:
    result = plan(MODULE, mesh="x=8")
    assert any("not kept" in warning for warning in result.plan.warnings)
    assert 'sdy.sharding_constraint %1 <@mesh, [{"data"}' not in result.module.decode()


def test_a_pin_of_the_request_comes_before_one_of_the_module() -> None:
    result = plan(MODULE, pins=("0=data,None",))
    assert result.plan.arguments[0].spec == [["data"], []]


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        (("embedding",), "not a pin"),
        (("=data",), "not a pin"),
        (("embedding=data,data",), "an axis twice"),
        (("embedding=expert",), "has not"),
        (("embedding=data,model,None",), "3 dimensions"),
        (("state/count=data",), "1 dimensions"),
        (("embedding=data+,None",), "not a pin"),
        (("nothing/here=data",), "No argument matches"),
    ],
)
def test_pins_that_cannot_be_kept_say_why(pins: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        demands(gemma_source(), MESH, pins, ())
    assert caught.value.hint


def test_a_pin_that_does_not_divide_is_refused() -> None:
    mesh = Mesh.parse("data=2,model=512")
    with pytest.raises(InvalidRequest, match="not divisible by 512"):
        demands(gemma_source(), mesh, ("params/embedding=model,None",), ())


OWN = b"""module {
  sdy.mesh @one = <["a"=1]>
  func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = stablehlo.add %x, %x : tensor<8x16xf32>
    %1 = sdy.sharding_constraint %0 <@one, [{?}, {}]> : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
"""


def test_a_result_may_be_a_constraint_that_is_not_kept() -> None:
    evaluator = Evaluator(analyse(load(OWN).program), MESH, find("cpu"))
    specs = Specs(resolve(evaluator, (Action(group=0, axis=0),)))
    written = write(load(OWN), MESH, specs, specs.constraints()).decode()
    assert "sdy.sharding_constraint" not in written
    assert '-> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})' in written


FED_BACK = b"""module {
  func.func @main(%old: tensor<8x16xf32> {tf.aliasing_output = 0 : i32},
                  %kept: tensor<8x16xf32> {tf.aliasing_output = 1 : i32},
                  %x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %0 = stablehlo.add %x, %x : tensor<8x16xf32>
    %1 = stablehlo.negate %kept : tensor<8x16xf32>
    return %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
  }
}
"""


def test_a_donated_argument_of_another_layout_than_its_result_lends_its_buffer_to_any() -> None:
    source = load(FED_BACK)
    evaluator = Evaluator(analyse(source.program), MESH, find("cpu"))
    x = source.program.arguments[2]
    colour = int(evaluator.analysis.colours.colour[source.program.def_names(x.value)[0]])
    group = int(evaluator.analysis.groups.of_colour[colour])
    specs = Specs(resolve(evaluator, (Action(group=group, axis=0),)))
    old, kept, _ = (specs.value(argument.value) for argument in source.program.arguments)
    results = [specs.use(result.use) for result in source.program.results]
    assert (old != results[0], kept == results[1]) == (True, True)
    written = write(load(FED_BACK), MESH, specs, specs.constraints()).decode()
    first, second, _ = written.partition("func.func")[2].split("tensor<8x16xf32> {")[1:4]
    assert "jax.buffer_donor = true" in first
    assert "aliasing_output" not in first
    assert "tf.aliasing_output = 1" in second
