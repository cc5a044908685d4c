"""What Shardy makes of a written plan: every value is laid out as the plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.probes.programs import lowered
from examples import gemma
from tests.modules import analysed, argument_group, evaluator_of, text, value_named
from tests.toast.propagation import deviating, random_states
from toast.costmodel.evaluator import Action, Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.program.pins import NO_PINS, Pins
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs, stations
from toast.search.actions import action_space

MESH = "a=2,b=2"


@pytest.mark.parametrize("name", ["mlp", "attention", "transpose"])
def test_shardy_lays_everything_out_as_planned(name: str) -> None:
    data = text(name)
    evaluator = evaluator_of(data, MESH)
    for state in random_states(evaluator, 12):
        assert deviating(data, evaluator, state) == [], state


def test_and_so_in_a_training_step() -> None:
    data = gemma.lower(gemma.PRESETS["tiny"]).as_text().encode()
    evaluator = evaluator_of(data, MESH)
    for state in random_states(evaluator, 4):
        assert deviating(data, evaluator, state) == [], state


@pytest.mark.parametrize(("argument", "dim"), [(1, 0), (6, 1)], ids=["vocabulary", "head size"])
def test_and_where_a_sum_over_rows_is_scattered_over_their_axis(argument: int, dim: int) -> None:
    """Told only where the sum is kept, Shardy takes the axis off the rows that are summed."""
    data = gemma.lower(gemma.PRESETS["tiny"]).as_text().encode()
    evaluator = evaluator_of(data, MESH)
    tokens = len(evaluator.analysis.program.arguments) - 2
    places = [(tokens, 0), (argument, dim)]
    groups = [argument_group(evaluator.analysis, *place) for place in places]
    state = tuple(Action(group=group, axis=1) for group in groups)
    assert deviating(data, evaluator, state) == []


TWO_PRODUCTS = b"""
func.func public @main(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %v: tensor<16x32xf32>)
    -> tensor<64x32xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %t = stablehlo.tanh %y : tensor<64x16xf32>
  %z = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0]
    : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
  return %z : tensor<64x32xf32>
}
"""


def two_products(*actions: tuple[int, int, int]) -> tuple[Evaluator, State]:
    """Actions are (argument, dimension, axis)."""
    evaluator = evaluator_of(TWO_PRODUCTS, MESH)
    state = tuple(
        Action(group=argument_group(evaluator.analysis, argument, dim), axis=axis)
        for argument, dim, axis in actions
    )
    return evaluator, state


def test_what_a_use_wants_whole_is_pinned_where_it_is_made() -> None:
    """Shardy would gather k where it is made: its only constrained use wants it whole."""
    evaluator = evaluator_of(text("attention"), "s=2")
    sequence = argument_group(evaluator.analysis, 0, 0)
    pins = Specs(resolve(evaluator, (Action(group=sequence, axis=0, bits=1),))).constraints()
    k = value_named(evaluator.analysis.program, "stablehlo.dot_general")
    assert [(pin.spec, bool(pin.uses)) for pin in pins if pin.value == k] == [
        ([["s"], []], False),
        ([[], []], True),
    ]


def test_nothing_is_pinned_where_no_axis_is_missing() -> None:
    evaluator, state = two_products((0, 0, 0), (1, 1, 1))
    assert Specs(resolve(evaluator, state)).constraints() == []


@pytest.mark.parametrize("first", [0, 1])
def test_the_axes_of_a_dimension_are_in_the_order_of_the_mesh(first: int) -> None:
    evaluator, state = two_products((0, 0, first), (0, 0, 1 - first))
    argument = evaluator.analysis.program.arguments[0].value
    assert Specs(resolve(evaluator, state)).value(argument) == [["a", "b"], []]


def test_the_axis_that_stays_leads() -> None:
    """Rows have both axes, but the products need a for the hidden dimension: b stays on rows."""
    evaluator, state = two_products((1, 1, 0), (0, 0, 0), (0, 0, 1))
    specs = Specs(resolve(evaluator, state))
    argument = evaluator.analysis.program.arguments[0].value
    assert specs.value(argument) == [["b", "a"], []]
    (sums,) = [pin for pin in specs.constraints() if not pin.uses]
    assert (sums.through, sums.spec) == ((), [["b", "a"], []]), "a is only added"


@pytest.mark.parametrize("given", [False, True])
def test_pins_are_where_layouts_differ_and_nowhere_else(given: bool) -> None:
    analysis = analysed(gemma.lower(gemma.PRESETS["tiny"]).as_text().encode())
    program = analysis.program
    value = program.arguments[1].value
    use = next(result.use for result in program.results[::-1] if program.use_names(result.use).size)
    rest = tuple(() for _ in program.shape(value)[1:])
    columns = tuple(() for _ in program.shape(program.sources[use])[1:])
    pinned = Pins(values={value: ((0,), *rest)}, uses={use: ((1,), *columns)})
    pins_of = pinned if given else NO_PINS
    evaluator = Evaluator(analysis, Mesh.parse(MESH), find("cpu"), pins_of)
    layouts = evaluator.layouts
    for state in random_states(evaluator, 4):
        specs = Specs(resolve(evaluator, state))
        if given:
            assert specs.value(value) == [["a"], *([] for _ in rest)]
            assert specs.use(use) == [["b"], *([] for _ in columns)]
        wanted = {
            (value, str(specs.use(some[0])))
            for value, targets in evaluator.listing.wanted.items()
            for _, some in targets.values()
            if specs.use(some[0]) != specs.value(value)
        }
        moved = {
            value
            for value in np.flatnonzero(~program.constant).tolist()
            if program.kind(program.makers[value]) != "argument"
            and specs.tensor(int(layouts.result_tensor[value])) != specs.value(value)
        }
        left = {value for value, _ in wanted if program.kind(program.makers[value]) != "argument"}
        pins = specs.constraints()
        at_uses = {(pin.value, str(pin.spec)) for pin in pins if pin.uses}
        assert wanted <= at_uses
        kept = {(value, str(specs.value(value))) for value, _ in at_uses - wanted}
        assert at_uses - wanted <= kept, (
            "operands of sums that are scattered in part, as they are kept"
        )
        assert {pin.value for pin in pins if not pin.uses} == moved | left


SCATTERED = b"""
func.func public @main(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>) -> tensor<64x16xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %t = stablehlo.tanh %y : tensor<64x16xf32>
  return %t : tensor<64x16xf32>
}
"""


def scattered(contracted: tuple[int, ...], rows: tuple[int, ...]) -> tuple[Evaluator, State]:
    """Sums over these axes, of which the rows of the result get those."""
    evaluator = evaluator_of(SCATTERED, MESH)
    summed, kept = (argument_group(evaluator.analysis, 0, dim) for dim in (1, 0))
    places = [(summed, axis) for axis in contracted] + [(kept, axis) for axis in rows]
    return evaluator, tuple(Action(group=group, axis=axis) for group, axis in places)


def test_a_result_is_constrained_before_its_sum() -> None:
    evaluator, state = scattered((0, 1), (0, 1))
    (pin,) = Specs(resolve(evaluator, state)).constraints()
    assert (pin.through, pin.spec, pin.uses) == (([[], []],), [["a", "b"], []], ())
    assert deviating(SCATTERED, evaluator, state) == []


def test_a_result_whose_rows_are_sharded_already_is_not_constrained_before_its_sum() -> None:
    evaluator, state = scattered((0,), (1, 0))
    sums, *operands = Specs(resolve(evaluator, state)).constraints()
    assert (sums.through, sums.spec, sums.uses) == ((), [["b", "a"], []], ())
    assert [(pin.spec, len(pin.uses)) for pin in operands] == [
        ([["b"], ["a"]], 1),
        ([["a"], []], 1),
    ]
    assert deviating(SCATTERED, evaluator, state) == []


FOLLOWED = b"""
func.func public @main(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %v: tensor<16x32xf32>)
    -> (tensor<64x16xf32>, tensor<64x32xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %t = stablehlo.tanh %y : tensor<64x16xf32>
  %z = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0]
    : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
  return %t, %z : tensor<64x16xf32>, tensor<64x32xf32>
}
"""


@pytest.mark.parametrize("moved", [0, 1])
def test_what_is_contracted_has_its_axes_in_the_order_of_what_its_sums_are_scattered_to(
    moved: int,
) -> None:
    """The second product gathers one axis from the rows; the other leads there, and in the sums."""
    evaluator = evaluator_of(FOLLOWED, MESH)
    analysis = evaluator.analysis
    rows, summed = (argument_group(analysis, 0, dim) for dim in (0, 1))
    columns = argument_group(analysis, 2, 1)
    places = [(columns, moved), (summed, 0), (summed, 1), (rows, 0), (rows, 1)]
    state = tuple(Action(group=group, axis=axis) for group, axis in places)
    specs = Specs(resolve(evaluator, state))
    order = ["b", "a"] if moved == 0 else ["a", "b"]
    assert specs.value(analysis.program.arguments[1].value) == [order, []]
    (pin,) = (pin for pin in specs.constraints() if pin.through)
    assert (pin.through, pin.spec) == (([[], []],), [order, []])
    assert deviating(FOLLOWED, evaluator, state) == []


OVER_TWO = b"""
func.func public @main(%x: tensor<8x64x32xf32>, %w: tensor<8x64x16xf32>, %v: tensor<16x32xf32>)
    -> (tensor<32x16xf32>, tensor<32x32xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [0, 1] x [0, 1]
    : (tensor<8x64x32xf32>, tensor<8x64x16xf32>) -> tensor<32x16xf32>
  %t = stablehlo.tanh %y : tensor<32x16xf32>
  %z = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0]
    : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32>
  return %t, %z : tensor<32x16xf32>, tensor<32x32xf32>
}
"""


@pytest.mark.parametrize(("device", "constrained"), [("tpu-v5e", True), ("a100-40gb", False)])
def test_a_tpu_sums_over_one_dimension_after_the_other(device: str, constrained: bool) -> None:
    """First over b, then over a: the order of the result. A GPU sums in that of the mesh.

    The second product gathers a of the rows, so b leads there.
    """
    evaluator = evaluator_of(OVER_TWO, MESH, device)
    batch, seq, rows = (argument_group(evaluator.analysis, 0, dim) for dim in range(3))
    columns = argument_group(evaluator.analysis, 2, 1)
    state = tuple(
        Action(group=group, axis=axis)
        for group, axis in ((columns, 0), (batch, 1), (seq, 0), (rows, 0), (rows, 1))
    )
    found = Specs(resolve(evaluator, state)).constraints()
    product = value_named(evaluator.analysis.program, "stablehlo.dot_general")
    (one,) = (one for one in found if one.value == product and not one.uses)
    assert (one.through, one.spec) == (([[], []],) if constrained else (), [["b", "a"], []])


APART = b"""
func.func public @main(
    %x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %v: tensor<16x32xf32>, %r: tensor<16x8xf32>)
    -> (tensor<64x16xf32>, tensor<64x32xf32>, tensor<32x8xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %t = stablehlo.tanh %y : tensor<64x16xf32>
  %z = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0]
    : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
  %q = stablehlo.dot_general %w, %r, contracting_dims = [1] x [0]
    : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
  return %t, %z, %q : tensor<64x16xf32>, tensor<64x32xf32>, tensor<32x8xf32>
}
"""


def test_where_only_some_axes_are_scattered_the_operands_are_constrained() -> None:
    evaluator, state = scattered((0, 1), (0,))
    found = Specs(resolve(evaluator, state)).constraints()
    assert [(one.spec, one.through) for one in found if not one.uses] == [([["a"], []], ())]
    assert [one.spec for one in found if one.uses] == [[[], ["a", "b"]], [["a", "b"], []]]
    assert deviating(SCATTERED, evaluator, state) == []


def test_where_the_result_has_another_order_than_the_sum_the_operands_are_constrained() -> None:
    """The second product gathers a of the rows, so b leads; the third one b of what is summed."""
    evaluator = evaluator_of(APART, MESH)
    rows, summed = (argument_group(evaluator.analysis, 0, dim) for dim in (0, 1))
    v_columns, r_columns = (argument_group(evaluator.analysis, n, 1) for n in (2, 3))
    places = [(v_columns, 0), (r_columns, 1)]
    places += [(group, axis) for group in (summed, rows) for axis in (0, 1)]
    state = tuple(Action(group=group, axis=axis) for group, axis in places)
    found = Specs(resolve(evaluator, state)).constraints()
    product = value_named(evaluator.analysis.program, "stablehlo.dot_general")
    (sums,) = (one for one in found if one.value == product and not one.uses)
    assert (sums.spec, sums.through) == ([["b", "a"], []], ())
    uses = set(evaluator.analysis.program.uses_of(evaluator.analysis.program.makers[product]))
    operands = [one.spec for one in found if uses & set(one.uses)]
    assert operands == [[[], ["a", "b"]], [["a", "b"], []]]
    assert deviating(APART, evaluator, state) == []


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_pin_says_what_its_own_value_and_uses_are_laid_out_as(first: int) -> None:
    """What is alike is worked out once, and is what it is for each by itself."""
    config = replace(gemma.PRESETS["tiny"], layers=3)
    analysis = analysed(gemma.lower(config).as_text().encode())
    weight = next(
        argument.value
        for argument in analysis.program.arguments
        if len(analysis.program.shape(argument.value)) == 2
    )
    given = Pins(values={weight: ((1, 0), ())})
    for pinned in (NO_PINS, given):
        evaluator = Evaluator(analysis, Mesh.parse(MESH), find("cpu"), pinned)
        state = tuple(action_space(evaluator)[first::3])
        specs = Specs(resolve(evaluator, state))
        if pinned is given:
            assert specs.value(weight) == [["b", "a"], []]
        pins = specs.constraints()
        assert any(pin.uses for pin in pins)
        for pin in pins:
            kept = specs.value(pin.value)
            if pin.uses:
                assert all(specs.use(use) == pin.spec for use in pin.uses)
                assert pin.through == stations(kept, pin.spec)
            else:
                computed = specs.tensor(int(evaluator.layouts.result_tensor[pin.value]))
                through = stations(computed, kept)
                assert pin.spec == kept
                assert pin.through in (through, (computed, *through))


def test_the_numbers_of_an_argmax_lie_as_what_is_compared() -> None:
    """Shardy would give them the layout of the results, and XLA would move them."""

    def step(x: Any, w: Any) -> Any:
        return jnp.argmax(jnp.tanh(x @ w), axis=1)

    evaluator = evaluator_of(lowered(step, (64, 32), (32, 128)), MESH)
    rows, words = (argument_group(evaluator.analysis, *place) for place in ((0, 0), (1, 1)))
    state = tuple(
        Action(group=group, axis=axis) for group, axis in ((rows, 0), (words, 1), (rows, 1))
    )
    program = evaluator.analysis.program
    found = Specs(resolve(evaluator, state)).constraints()
    numbers = [one for one in found if program.kind(program.makers[one.value]) == "stablehlo.iota"]
    assert [one.spec for one in numbers] == [[["a"], ["b"]]]
    assert [program.kind(program.user(use)) for one in numbers for use in one.uses] == [
        "stablehlo.reduce"
    ]
