"""Prices of memory, forests, and both together, beside every choice of small instances."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toast.search.pairwise import iopddl
from toast.search.pairwise import solve as solving
from toast.search.pairwise.compact import Compact, backs, compact, judged, mirrored
from toast.search.pairwise.forests import Forests
from toast.search.pairwise.instance import Instance, Piece, score
from toast.search.pairwise.multipliers import Multipliers
from toast.search.pairwise.portfolio import Portfolio
from toast.search.pairwise.reduce import Reduced
from toast.search.pairwise.solve import solve


@st.composite
def instances(draw: st.DrawFn, *, excess: float = math.inf) -> Instance:
    """Up to seven nodes in a ring or a thicker graph, some pairs forbidden, a tight limit."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(2, 7))
    sizes = random.integers(2, 4, count)
    thick = draw(st.sampled_from((0.2, 0.6)))
    pairs = [(a, b) for a, b in itertools.combinations(range(count), 2) if random.random() < thick]
    tables = []
    for a, b in pairs:
        table = random.integers(0, 9, (sizes[a], sizes[b])).astype(float)
        table[random.random(table.shape) < 0.2] = np.inf
        tables.append(table)
    usages = [random.integers(1, 9, size).astype(float) for size in sizes]
    spans = [sorted(random.choice(8, 2, replace=False).tolist()) for _ in sizes]
    least = sum(usage.min() for usage in usages)
    return Instance(
        costs=tuple(random.integers(0, 9, size).astype(float) for size in sizes),
        pieces=tuple(
            (Piece(low=low, high=high, usage=usage),)
            for (low, high), usage in zip(spans, usages, strict=True)
        ),
        edges=tuple(pairs),
        tables=tuple(tables),
        limit=float(least * draw(st.sampled_from((0.7, 1.0, 1.3)))),
        excess=excess,
    )


def whole(instance: Instance) -> tuple[Reduced, Compact]:
    """The instance with nothing reduced."""
    reduced = Reduced(instance, stopped=lambda: True)
    return reduced, compact(reduced)


def all_costs(c: Compact, excess: float) -> list[float]:
    ranges = [range(c.strategies(node)) for node in range(c.nodes)]
    return [judged(c, np.array(pick), excess)[0] for pick in itertools.product(*ranges)]


@given(st.one_of(instances(), instances(excess=2.5)))
def test_a_stopped_reduction_scores_like_the_instance(instance: Instance) -> None:
    reduced, c = whole(instance)
    zeros = np.zeros(c.nodes, dtype=np.int64)
    lifted = score(instance, reduced.lift(dict.fromkeys(sorted(reduced.nodes), 0)))
    cost = judged(c, zeros, reduced.excess)[0] + reduced.constant
    assert math.isfinite(cost) == lifted.feasible
    if lifted.feasible:
        assert cost == pytest.approx(lifted.cost)


@given(st.one_of(instances(), instances(excess=2.5)))
def test_prices_bound_every_choice_at_every_step(instance: Instance) -> None:
    reduced, c = whole(instance)
    least = min(all_costs(c, reduced.excess))
    told: list[tuple[list[int], float]] = []
    prices = Multipliers(
        c, reduced.excess, lambda choice, cost: told.append((choice.tolist(), cost))
    )
    for _ in range(40):
        prices.step(math.inf)
        assert prices.bound <= least + 1e-6 * (1 + abs(prices.bound))
    for choice, cost in told:
        assert cost == judged(c, np.array(choice), reduced.excess)[0]
        assert cost >= least


@given(st.one_of(instances(), instances(excess=2.5)), st.integers(0, 99))
def test_forests_only_get_better_and_tell_true_costs(instance: Instance, seed: int) -> None:
    reduced, c = whole(instance)
    least = min(all_costs(c, reduced.excess))
    search = Forests(c, np.zeros(c.nodes, dtype=np.int64), reduced.excess, seed=seed)
    prices = np.full(len(c.capacity), 0.5)
    search.fit(prices)
    before = search.cost
    for _ in range(6):
        if math.isfinite(search.cost):
            search.improve(prices)
        assert search.cost <= before
        assert search.cost == judged(c, search.choice, reduced.excess)[0]
        before = search.cost
    assert search.cost >= least - 1e-9


def test_that_nothing_fits_is_proved_by_prices() -> None:
    random = np.random.default_rng(1)
    pairs = list(itertools.combinations(range(5), 2))
    instance = Instance(
        costs=tuple(random.random(3) for _ in range(5)),
        pieces=tuple((Piece(low=0, high=2, usage=np.array([3.0, 4.0, 5.0])),) for _ in range(5)),
        edges=tuple(pairs),
        tables=tuple(random.random((3, 3)) for _ in pairs),
        limit=14.0,
    )
    _, c = whole(instance)
    portfolio = Portfolio(c, math.inf)
    portfolio.run(math.inf)
    assert portfolio.proved
    assert portfolio.choice is None


@given(instances(), st.integers(1, 2))
def test_together_they_find_what_fits_and_stay_between_bound_and_truth(
    instance: Instance, threads: int
) -> None:
    reduced, c = whole(instance)
    least = min(all_costs(c, reduced.excess))
    turns = itertools.count()
    portfolio = Portfolio(c, reduced.excess, stopped=lambda: next(turns) > 2000)
    portfolio.run(math.inf, threads)
    assert portfolio.bound <= least + 1e-6 * (1 + abs(least)) or math.isinf(least)
    assert portfolio.cost >= least - 1e-9
    if math.isfinite(least):
        assert portfolio.choice is not None
        assert judged(c, portfolio.choice, math.inf)[0] == portfolio.cost
    if portfolio.proved:
        assert portfolio.cost == pytest.approx(least) or math.isinf(portfolio.cost + least)


@given(instances())
@settings(max_examples=20)
def test_large_instances_get_a_valid_answer_without_highs(instance: Instance) -> None:
    least = min(
        score(instance, pick).cost if score(instance, pick).feasible else math.inf
        for pick in itertools.product(*(range(len(cost)) for cost in instance.costs))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solving, "LARGE", 0)
        patch.setattr(solving, "DIRECT", -1)
        patch.setattr(solving, "IntegerProgram", None)
        answer = solve(instance, seconds=0.3)
    assert (answer.choice is not None) == math.isfinite(least)
    if answer.choice is not None:
        assert score(instance, answer.choice).feasible
        assert answer.bound <= least + 1e-6
        assert answer.cost >= least - 1e-9


@given(instances())
def test_both_ends_of_an_edge_have_its_cells_in_order(instance: Instance) -> None:
    _, c = whole(instance)
    twice, back = mirrored(c), backs(c)
    node = np.repeat(np.arange(c.nodes), np.diff(c.link_start))
    for k, (own, other) in enumerate(zip(node.tolist(), c.link_node.tolist(), strict=True)):
        assert node[back[k]] == other
        assert c.link_node[back[k]] == own
        for s, t in itertools.product(range(c.strategies(own)), range(c.strategies(other))):
            was = c.cell[c.link_cell[k] + s * c.link_own[k] + t * c.link_other[k]]
            now = twice.cell[twice.link_cell[k] + s * c.strategies(other) + t]
            assert now == was or (math.isinf(was) and now > 1e4)


def test_no_step_begins_after_the_end() -> None:
    clock = iter([0.0, 0.0, 5.0, 9.0, 9.4, 11.0, 12.0, *range(13, 99)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toast.search.pairwise.portfolio.time.monotonic", lambda: next(clock))
        patch.setattr("toast.search.pairwise.portfolio.Portfolio._step_prices", lambda *_: True)
        _, c = whole(ring())
        Portfolio(c, math.inf).run(10.0)
    assert next(clock) <= 13


def ring() -> Instance:
    same = np.array([[0.0, 3.0], [3.0, 0.0]])
    return Instance(
        costs=(np.array([1.0, 2.0]),) * 4,
        pieces=((),) * 4,
        edges=((0, 1), (1, 2), (2, 3), (0, 3)),
        tables=(same,) * 4,
    )


TEXTS = (
    "[[1,2],[3]]",
    "[[1, 2],\n [ 3 ] ]",
    "[[],[7]]",
    "[[1000000000000000000]]",
    "[[1.5,2],[3]]",
    "[[1e3,2],[3]]",
    "[[99999999999999999999]]",
)


@pytest.mark.parametrize("row", TEXTS)
def test_rows_of_numbers_are_read_like_json(row: str) -> None:
    document = f'{{"a": {row}, "b": {{"c": {row}}}, "d": [[[1]]], "e": "[[1]]"}}'
    found = iopddl._load(document.encode())
    wanted = json.loads(document)
    assert [list(map(float, each)) for each in found["a"]] == [
        list(map(float, each)) for each in wanted["a"]
    ]
    assert found["e"] == wanted["e"]
    assert np.asarray(found["d"]).tolist() == wanted["d"]


@pytest.mark.parametrize(
    "row", ["[[1,]]", "[[1 2]]", "[[1],]", "[[,1]]", "[[1]", "[[-]]", "[[1],,[2]]"]
)
def test_what_is_not_json_is_refused(row: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        iopddl._load(f'{{"a": {row}}}'.encode())
