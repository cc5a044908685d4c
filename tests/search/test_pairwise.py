"""The generic problem: scores, the contest's format, reductions, beam, ILP and windows."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import contest
from toast.analysis.errors import InvalidRequest
from toast.analysis.program import Floats
from toast.search.pairwise import iopddl
from toast.search.pairwise import solve as solving
from toast.search.pairwise.compact import compact, memory_of, total
from toast.search.pairwise.highs import IntegerProgram
from toast.search.pairwise.instance import Instance, Piece, Score, capped, peak_of, score
from toast.search.pairwise.reduce import Reduced
from toast.search.pairwise.solve import Solution, solve
from toast.search.pairwise.windows import improve

TWO_NODES: dict[str, Any] = {
    "problem": {
        "name": "two",
        "nodes": {
            "intervals": [[0, 2], [1, 3]],
            "costs": [[1, 5], [2, 0]],
            "usages": [[10, 1], [10, 1]],
        },
        "edges": {"nodes": [[0, 1]], "costs": [[0, 7, 10**18, 1]]},
        "usage_limit": 11,
    }
}


def two_nodes() -> Instance:
    return iopddl.parse(json.dumps(TWO_NODES).encode())


def test_a_score_adds_nodes_and_edges_and_finds_the_peak() -> None:
    assert score(two_nodes(), [1, 1]) == Score(cost=6, peak=2, feasible=True)
    assert score(two_nodes(), [0, 1]) == Score(cost=8, peak=11, feasible=True)
    assert score(two_nodes(), [0, 0]) == Score(cost=3, peak=20, feasible=False)


def test_a_forbidden_pair_is_no_solution() -> None:
    found = score(two_nodes(), [1, 0])
    assert math.isinf(found.cost)
    assert not found.feasible


def test_memory_above_the_limit_may_have_a_price() -> None:
    priced = Instance(
        costs=(np.array([1.0]),),
        pieces=((Piece(low=0, high=1, usage=np.array([5.0])),),),
        edges=(),
        tables=(),
        limit=3.0,
        excess=10.0,
        constant=0.5,
    )
    assert score(priced, [0]) == Score(cost=21.5, peak=5, feasible=True)


def test_a_node_that_is_never_in_memory_uses_none() -> None:
    document = json.loads(json.dumps(TWO_NODES))
    document["problem"]["nodes"]["intervals"][0] = [2, 2]
    instance = iopddl.parse(json.dumps(document).encode())
    assert peak_of(instance, [0, 0]) == 10


def test_intervals_are_half_open() -> None:
    document = json.loads(json.dumps(TWO_NODES))
    document["problem"]["nodes"]["intervals"] = [[0, 1], [1, 2]]
    assert peak_of(iopddl.parse(json.dumps(document).encode()), [0, 0]) == 10


def test_an_edge_from_a_node_to_itself_is_a_cost_of_the_node() -> None:
    document = json.loads(json.dumps(TWO_NODES))
    document["problem"]["edges"] = {"nodes": [[0, 0]], "costs": [[3, 9, 9, 4]]}
    assert score(iopddl.parse(json.dumps(document).encode()), [1, 1]).cost == 5 + 0 + 4


def test_files_may_be_compressed_and_solutions_come_back(tmp_path: Path) -> None:
    problem, solution = tmp_path / "two.json.gz", tmp_path / "solution.json"
    problem.write_bytes(gzip.compress(json.dumps(TWO_NODES).encode()))
    answer = solve(iopddl.read(problem), seconds=10)
    assert answer.choice is not None
    iopddl.write(answer.choice, solution)
    assert iopddl.read_solution(solution) == [1, 1]
    assert contest.scored(problem, solution) == "cost 6, peak 2, valid"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (("nodes", "intervals"), [[0, 2]], "1 intervals"),
        (("nodes", "intervals"), [[2, 0], [0, 1]], "ends before it begins"),
        (("nodes", "intervals"), [[0.5, 2], [0, 1]], "not two whole numbers"),
        (("nodes", "usages"), [[1], [1, 2]], "node 0 has 2 costs and 1 usages"),
        (("nodes", "costs"), [[1, -5], [2, 0]], "0 or more"),
        (("nodes", "costs"), [["a", 5], [2, 0]], "something else than numbers"),
        (("nodes", "costs"), 7, "no list named 'costs'"),
        (("edges", "nodes"), [[0, 2]], "edge 0 joins 0 and 2"),
        (("edges", "nodes"), [[0, 1], [0, 1]], "2 edges and 1 rows"),
        (("edges", "costs"), [[1, 2, 3]], "edge 0 has 3 costs"),
    ],
)
def test_what_is_no_problem_is_refused(field: tuple[str, str], value: Any, message: str) -> None:
    document = json.loads(json.dumps(TWO_NODES))
    document["problem"][field[0]][field[1]] = value
    with pytest.raises(InvalidRequest, match=message):
        iopddl.parse(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"\x1f\x8bxx", b"[]", b'{"problem": 1}'])
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        iopddl.parse(data, "x.json")


@pytest.mark.parametrize("choice", [[0], [0, 2], [-1, 0], [0, 0, 0]])
def test_what_is_no_solution_is_refused(choice: list[int]) -> None:
    with pytest.raises(InvalidRequest):
        score(two_nodes(), choice)


@pytest.mark.parametrize("text", ["{}", "[1.5]", "[true]", "[", '"ab"'])
def test_a_file_that_is_no_solution_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(InvalidRequest):
        iopddl.read_solution(tmp_path / "s.json")


@st.composite
def instances(draw: st.DrawFn, excess: float = math.inf) -> Instance:
    """Up to six nodes with whole-number costs, some forbidden, and memory over four times."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 6))
    sizes = random.integers(1, 5, count)
    pairs = [pair for pair in itertools.combinations(range(count), 2) if random.random() < 0.5]
    pieces = []
    for size in sizes:
        low, high = sorted(random.integers(0, 5, 2).tolist())
        usage = random.integers(0, 6, size).astype(float)
        pieces.append((Piece(low=low, high=high, usage=usage),) if low < high else ())
    return Instance(
        costs=tuple(random.integers(0, 9, size).astype(float) for size in sizes),
        pieces=tuple(pieces),
        edges=tuple(pairs),
        tables=tuple(_table(random, (int(sizes[a]), int(sizes[b]))) for a, b in pairs),
        limit=float(random.integers(3, 14)),
        excess=excess,
    )


def _table(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    table = random.integers(0, 9, shape).astype(float)
    table[random.random(shape) < 0.25] = np.inf
    return table


def brute_force(instance: Instance) -> float:
    found = (
        score(instance, choice)
        for choice in itertools.product(*(range(len(cost)) for cost in instance.costs))
    )
    return min((one.cost for one in found if one.feasible), default=math.inf)


@given(st.one_of(instances(), instances(excess=2.5)))
def test_the_ilp_is_brute_force(instance: Instance) -> None:
    best, answer = brute_force(instance), solve(instance, seconds=30)
    assert answer.proved
    assert answer.cost == pytest.approx(best)
    assert answer.bound == pytest.approx(best)
    if answer.choice is not None:
        found = score(instance, answer.choice)
        assert found.feasible
        assert found.cost == answer.cost


@given(st.one_of(instances(), instances(excess=2.5)))
def test_reductions_keep_the_optimum(instance: Instance) -> None:
    reduced, best = Reduced(instance), brute_force(instance)
    if reduced.infeasible:
        assert math.isinf(best)
        return
    ranges = {number: range(len(node.cost)) for number, node in reduced.nodes.items()}
    lifted = [
        score(instance, reduced.lift(dict(zip(ranges, picks, strict=True))))
        for picks in itertools.product(*ranges.values())
    ]
    assert min((one.cost for one in lifted if one.feasible), default=math.inf) == best


@given(instances())
def test_what_is_left_costs_and_fills_memory_like_the_original(instance: Instance) -> None:
    reduced = Reduced(instance)
    if reduced.infeasible or not reduced.nodes:
        return
    c = compact(reduced)
    zeros = np.zeros(c.nodes, dtype=np.int64)
    lifted = score(instance, reduced.lift(dict.fromkeys(sorted(reduced.nodes), 0)))
    fits = bool((memory_of(c, zeros) <= c.capacity).all())
    cost = total(c, zeros, math.inf) + reduced.constant
    assert fits == (lifted.peak <= instance.limit)
    if fits:
        assert cost == pytest.approx(lifted.cost)


@given(instances(excess=2.5))
def test_the_relaxation_is_a_bound(instance: Instance) -> None:
    reduced, best = Reduced(instance), brute_force(instance)
    if reduced.infeasible or not reduced.nodes:
        return
    bound = IntegerProgram(compact(reduced), reduced.excess).relax(10) + reduced.constant
    assert bound <= best + 1e-6


@given(instances(excess=2.5))
@settings(max_examples=25)
def test_windows_never_make_a_choice_worse_and_end_at_the_optimum(instance: Instance) -> None:
    reduced = Reduced(instance)
    if reduced.infeasible or not reduced.nodes:
        return
    c = compact(reduced)
    start = np.zeros(c.nodes, dtype=np.int64)
    found, proved = improve(c, start, reduced.excess, seconds=10, seed=1)
    before, after = (total(c, choice, reduced.excess) for choice in (start, found))
    assert after <= before
    if proved and math.isfinite(after):
        assert after + reduced.constant == pytest.approx(brute_force(instance))


@given(instances())
@settings(max_examples=25)
def test_large_instances_are_solved_through_narrow_ones(instance: Instance) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solving, "DIRECT", 12)
        answer = solve(instance, seconds=1.0)
    best = brute_force(instance)
    assert answer.bound <= best + 1e-6
    assert answer.cost >= best - 1e-6
    if answer.choice is not None:
        assert score(instance, answer.choice).feasible
    if answer.proved:
        assert answer.cost == pytest.approx(best)


def test_a_start_is_kept_where_there_is_no_time() -> None:
    answer = solve(two_nodes(), seconds=0.0, start=[0, 1])
    assert answer.cost <= 8
    assert answer.choice is not None


def test_a_stopped_search_returns_what_it_has() -> None:
    random = np.random.default_rng(5)
    size, nodes = 12, 14
    pairs = list(itertools.combinations(range(nodes), 2))
    instance = Instance(
        costs=tuple(random.random(size) for _ in range(nodes)),
        pieces=((),) * nodes,
        edges=tuple(pairs),
        tables=tuple(random.random((size, size)) for _ in pairs),
    )
    answer = solve(instance, seconds=60, start=[0] * nodes, stopped=lambda: True)
    assert answer.choice is not None
    assert not answer.proved
    assert answer.gap > 0


def test_a_cap_forbids_what_costs_more() -> None:
    instance = capped(two_nodes(), 5)
    assert np.isinf(instance.tables[0]).tolist() == [[False, True], [True, False]]
    assert np.isfinite(instance.costs[0]).all()


def test_nothing_within_the_limit_is_said() -> None:
    document = json.loads(json.dumps(TWO_NODES))
    document["problem"]["usage_limit"] = 1
    answer = solve(iopddl.parse(json.dumps(document).encode()), seconds=10)
    assert answer.choice is None
    assert answer.proved
    assert math.isinf(answer.gap)


def test_the_table_has_a_line_per_problem() -> None:
    answer = Solution(
        choice=[0], cost=532_843.0, bound=532_843.0, relaxation="branch and bound", proved=True
    )
    line = contest.row("B", answer, 12.34)
    assert line == (
        "| B | 532,843 | 532,843 | +0.0000% | 12.3 | 532,843 | branch and bound | yes |"
    )
