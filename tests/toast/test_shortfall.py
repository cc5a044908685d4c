"""What stands in the way of a plan that does not fit: each kind of obstacle, found where it is."""

from __future__ import annotations

from functools import cache

import pytest

from tests.modules import argument_group, text
from tests.toast.explained import Loaded, loaded, step
from toast.costmodel.evaluator import Action, State
from toast.costmodel.explain import explain
from toast.costmodel.resolved import resolve
from toast.pipeline.shortfall import shortfall
from toast.plans.explanation import Shortfall, SplitRow
from toast.search.infeasible import closest_to_fitting
from toast.search.problem import Found
from toast.search.progress import Control

MAX_SPLITS = 8
MAX_TENSORS = 5

LITTLE = 1000.0


@cache
def module(*, pins: tuple[str, ...] = (), forbid: tuple[str, ...] = ()) -> Loaded:
    return loaded(step(), memory=LITTLE, pins=pins, forbid=forbid)


def why(which: Loaded, state: State) -> Shortfall:
    found = shortfall_of(which, state)
    assert found is not None
    return found


def shortfall_of(which: Loaded, state: State) -> Shortfall | None:
    resolved = resolve(which.problem.evaluator, state)
    terms = explain(resolved)
    return shortfall(which.explainer, terms, which.problem, resolved, which.demands)


def splits_of(found: Shortfall, name: str) -> dict[tuple[int, str], SplitRow]:
    """The splits of an argument by dimension and axis."""
    (rows,) = [b.splits for b in found.tensors if b.tensor.name == name]
    return {(row.dimension, row.axis): row for row in rows}


def test_what_fits_has_no_shortfall() -> None:
    roomy = loaded(step())
    assert shortfall_of(roomy, ()) is None


def test_it_says_by_how_much_where_and_with_what() -> None:
    found = why(module(), ())
    peak = module().problem.evaluator.cost(()).peak
    assert found.over_bytes == peak - LITTLE
    assert found.peak.bytes == peak
    assert found.peak.op
    assert 1 <= len(found.tensors) <= MAX_TENSORS
    sizes = [blocked.tensor.bytes for blocked in found.tensors]
    assert sizes == sorted(sizes, reverse=True)
    assert all(len(blocked.splits) <= MAX_SPLITS for blocked in found.tensors)


def test_a_size_that_no_axis_divides() -> None:
    rows = splits_of(why(module(), ()), "p['first']")
    for axis, n in (("data", 2), ("model", 4)):
        assert rows[1, axis].obstacle == "indivisible"
        assert rows[1, axis].detail == f"1,001 is not divisible by {n}"


def test_a_size_that_is_used_up() -> None:
    which = loaded(text("mlp"), mesh="b=64,m=8", memory=1.0)
    state = (Action(group=argument_group(which.problem.evaluator.analysis, 0, 0), axis=0),)
    (x,) = (blocked for blocked in why(which, state).tensors if blocked.tensor.shape == [4, 32])
    row = next(row for row in x.splits if (row.dimension, row.axis) == (0, "m"))
    assert row.obstacle == "indivisible"
    assert row.detail == "256 (split 64 ways already) is not divisible by 512"


def test_what_the_caller_pins_and_forbids() -> None:
    which = module(pins=("p/second=None,None",), forbid=("p/first=data",))
    found = why(which, ())
    pinned = splits_of(found, "p['second']")
    assert {row.obstacle for row in pinned.values()} == {"pinned"}
    assert "the request pins p['second'] to None,None" in {row.detail for row in pinned.values()}
    first = splits_of(found, "p['first']")
    assert first[0, "data"].obstacle == "forbidden"
    assert "'data'" in first[0, "data"].detail
    assert first[0, "model"].obstacle != "forbidden"


def test_an_axis_that_another_dimension_has() -> None:
    which = loaded(step().replace(b"1001", b"1024"), memory=LITTLE)
    state = (which.action("second", 1, 1),)
    found = why(which, state)
    row = splits_of(found, "p['second']")[0, "model"]
    assert (row.obstacle, row.detail) == ("axis_taken", "'model' already splits dimension 1")
    (blocked,) = [b for b in found.tensors if b.tensor.name == "p['second']"]
    assert blocked.shards == 4


def test_a_split_that_would_help_is_priced_with_its_action_added() -> None:
    which = module()
    problem = which.problem
    row = splits_of(why(which, ()), "p['second']")[1, "data"]
    priced = problem.evaluator.cost((which.action("second", 1, 0),))
    assert row.obstacle == "pays"
    assert row.frees_bytes == problem.evaluator.cost(()).peak - priced.peak > 0
    assert (row.peak_bytes, row.step_seconds) == (priced.peak, priced.seconds)
    assert row.cost == problem.reward.of(priced) < problem.reward.of(problem.evaluator.cost(()))
    assert "frees" in row.detail


def test_a_split_that_costs_more_time_than_its_bytes_are_worth() -> None:
    which = loaded(step(), memory=1.0, penalty=1e-9)
    found = why(which, ())
    rows = [row for blocked in found.tensors for row in blocked.splits if row.frees_bytes]
    assert rows
    for row in rows:
        worth = row.cost is not None and row.cost < which.problem.cost(())[0] * (1 - 1e-9)
        assert row.obstacle == ("pays" if worth else "costs_time")


def test_those_that_would_help_come_first() -> None:
    for blocked in why(module(), ()).tensors:
        kinds = [row.obstacle in ("pays", "costs_time") for row in blocked.splits]
        assert kinds == sorted(kinds, reverse=True)


def test_a_dimension_that_an_op_needs_whole_has_no_name() -> None:
    data = (
        b"func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {"
        b" %y = stablehlo.custom_call @mystery(%x) {api_version = 1 : i32}"
        b" : (tensor<8x64xf32>) -> tensor<8x64xf32>"
        b" return %y : tensor<8x64xf32> }"
    )
    found = why(loaded(data, mesh="a=2", memory=1.0), ())
    rows = [row for blocked in found.tensors for row in blocked.splits]
    assert {row.obstacle for row in rows} == {"no_name"}
    assert rows[1].detail == "the ops around it cannot be split along dimension 1"


def test_a_resolution_that_gives_the_axis_to_another_dimension() -> None:
    """All three dimensions have one colour, and no resolution prefers the last of them."""
    data = (
        b"func.func public @main(%x: tensor<16x16x16xf32>) -> tensor<16x16x16xf32> {"
        b" %t = stablehlo.transpose %x, dims = [1, 2, 0]"
        b" : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>"
        b" %y = stablehlo.add %x, %t : tensor<16x16x16xf32>"
        b" return %y : tensor<16x16x16xf32> }"
    )
    rows = splits_of(why(loaded(data, mesh="a=2", memory=1.0), ()), "arg0")
    assert rows[2, "a"].obstacle == "resolution"
    assert rows[2, "a"].detail == "another dimension of the same colour is split in its place"
    assert rows[2, "a"].frees_bytes == 0
    assert rows[0, "a"].obstacle != "resolution"


def test_what_the_module_pins() -> None:
    """A constraint inside the module is kept, and so is the layout of an argument."""
    data = (
        b"sdy.mesh @mesh = <['a'=2]>\n"
        b"func.func public @main(%x: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh,"
        b" [{}, {}]>}) -> tensor<64x64xf32> {"
        b" %y = stablehlo.tanh %x : tensor<64x64xf32>"
        b" return %y : tensor<64x64xf32> }"
    ).replace(b"'", b'"')
    rows = splits_of(why(loaded(data, mesh="a=2", memory=1.0), ()), "arg0")
    assert {row.obstacle for row in rows.values()} == {"pinned"}
    assert rows[0, "a"].detail == "the module pins arg0 to None,None"


def test_a_split_that_frees_nothing_says_what_the_peak_is_then() -> None:
    """Split, the result of a product over the sharded dimension is still whole at the peak."""
    found = [
        row
        for number in range(6)
        for blocked in why(module(), module().problem.actions[number : number + 1]).tensors
        for row in blocked.splits
        if row.obstacle == "not_freed"
    ]
    assert found
    for row in found:
        assert row.detail.startswith("the peak would not fall: it is ")
        assert row.frees_bytes == 0


def test_an_axis_that_the_op_gives_to_another_operand() -> None:
    which = loaded(text("transpose"), mesh="a=2,b=2", memory=1.0)
    state = (Action(group=argument_group(which.problem.evaluator.analysis, 0, 0), axis=0),)
    (copy,) = (b for b in why(which, state).tensors if b.tensor.why == "resharded_copy")
    details = {row.detail for row in copy.splits if row.obstacle == "axis_taken"}
    assert details == {"'a' already splits a dimension of 32 that its op has besides"}


@pytest.mark.parametrize("number", range(6))
def test_what_is_priced_frees_bytes_or_says_that_it_does_not(number: int) -> None:
    which = module()
    problem = which.problem
    state = problem.actions[number : number + 1]
    peak = problem.evaluator.cost(state).peak
    for blocked in why(which, state).tensors:
        for row in blocked.splits:
            if row.peak_bytes is None:
                assert row.obstacle not in ("pays", "costs_time", "not_freed")
            else:
                assert row.frees_bytes == max(peak - row.peak_bytes, 0)
                assert (row.frees_bytes == 0) == (row.obstacle == "not_freed")


def found_of(which: Loaded, state: State) -> Found:
    cost, _ = which.problem.cost(state)
    return Found(state=state, cost=cost, rollouts=7, evaluations=9, termination="converged")


def test_a_state_that_fits_is_left_as_it_is() -> None:
    which = loaded(step())
    found = found_of(which, ())
    assert closest_to_fitting(which.problem, found, Control()) is found


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_what_does_not_fit_comes_as_close_as_single_changes_bring_it(share: float) -> None:
    peak = loaded(step()).problem.evaluator.cost(()).peak
    which = loaded(step(), memory=peak * share, penalty=1e-6)
    found = found_of(which, ())
    closest = closest_to_fitting(which.problem, found, Control())
    cost, measured = which.problem.cost(closest.state)
    assert measured.peak < peak
    assert closest.cost == cost
    assert (closest.rollouts, closest.termination) == (7, "converged")
    if share == 0.6:
        assert measured.peak <= which.problem.reward.memory
