"""Problems made from programs: layouts, what changing them costs, and the graph of a small one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.instances import __main__ as command
from benchmarks.instances.cases import all_cases, document
from benchmarks.instances.graph import Graph, least_peak
from benchmarks.instances.layouts import Links
from benchmarks.instances.runs import table
from benchmarks.zoo.split import read_split
from toast.analysis.load import load
from toast.search.pairwise import iopddl
from toast.search.pairwise.instance import score
from toast.search.pairwise.solve import solve

MLP = b"""
func.func public @main(%x: tensor<32x64xf32>, %w: tensor<64x128xf32>) -> tensor<32xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32>
  %t = stablehlo.tanh %y : tensor<32x128xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%t init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<32x128xf32>, tensor<f32>) -> tensor<32xf32>
  return %s : tensor<32xf32>
}
"""
LINKS = Links((2, 4))


@given(st.lists(st.integers(1, 32), min_size=1, max_size=4))
def test_layouts_split_evenly_and_no_two_are_equal(sizes: list[int]) -> None:
    layouts = LINKS.layouts(sizes)
    assert len({tuple(row) for row in layouts.tolist()}) == len(layouts)
    assert [-1, -1] in layouts.tolist()
    for row in layouts.tolist():
        for place, size in enumerate(sizes):
            parts = int(
                np.prod([axis for axis, at in zip((2, 4), row, strict=True) if at == place])
            )
            assert size % parts == 0


def test_keeping_a_layout_and_splitting_further_are_free() -> None:
    layouts = LINKS.layouts([8, 8])
    cost = LINKS.change(layouts, layouts, 4096.0)
    assert not np.diagonal(cost).any()
    whole = layouts.tolist().index([-1, -1])
    assert not cost[whole].any()
    assert (np.delete(cost[:, whole], whole) > 0).all()


def test_more_bytes_are_never_cheaper_to_lay_out_anew() -> None:
    layouts = LINKS.layouts([8, 8])
    assert (LINKS.change(layouts, layouts, 8192.0) >= LINKS.change(layouts, layouts, 4096.0)).all()


def test_elementwise_ops_and_reductions_follow_and_products_lead() -> None:
    nodes = Graph(load(MLP).program, LINKS).nodes
    x, w, y, t, s = range(5)
    assert [node.leader for node in nodes] == [x, w, y, y, y]
    partial = (nodes[t].layouts == 1).any(axis=1)
    assert (nodes[s].cost[partial] > 0).all()
    assert not nodes[s].cost[~partial].any()


def test_a_problem_has_the_limit_asked_for_and_an_answer() -> None:
    nodes = Graph(load(MLP).program, LINKS).nodes
    made = document("mlp", MLP, LINKS.axes, 1.5)
    limit = made["problem"]["usage_limit"]
    assert limit == int(1.5 * least_peak(nodes))
    instance = iopddl.parse(json.dumps(made).encode())
    answer = solve(instance, seconds=10)
    assert answer.proved
    assert answer.choice is not None
    assert score(instance, answer.choice).peak <= limit


def test_an_argument_is_in_memory_all_the_time_and_others_until_their_last_use() -> None:
    program = load(MLP).program
    x, _, y, t, _ = Graph(program, LINKS).nodes
    assert (x.low, x.high) == (0, program.ops)
    assert y.high == t.low + 1


def test_every_case_is_of_an_architecture_in_its_half() -> None:
    halves, cases = read_split(), all_cases()
    assert all(case.half == halves[case.architecture] for case in cases)
    assert len({case.architecture for case in cases}) == len(cases)
    for half in ("tuning", "held-out"):
        assert {case.limit for case in cases if case.half == half} == {1.05, 1.1, 1.3}


@pytest.mark.parametrize(
    ("given_arguments", "told"),
    [
        (["run"], "give the folder"),
        (["run", "nowhere", "--names", "nobody"], "unknown: nobody"),
        (["run", "nowhere", "--names", "marian"], "make them first"),
        (["run", "nowhere", "--data", "."], "give a file"),
        (["run", "nowhere", "--data", "nowhere/runs.jsonl"], "give a file"),
    ],
)
def test_bad_input_gets_one_line(
    given_arguments: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["instances", *given_arguments])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


def test_a_run_is_kept_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {
        "key": "a 60",
        "problem": "a",
        "half": "tuning",
        "seconds": 60,
        "nodes": 10_000,
        "first": 2.0,
        "took": 59.5,
        "cost": 110.0,
        "bound": 99.0,
    }
    longer = record | {"key": "a 600", "seconds": 600, "took": 600, "cost": 100.0, "bound": 100.0}
    line = table([longer, record]).splitlines()[-1]
    assert line == "| a | tuning | 10,000 | 2.0 s | 59.5 s | 110 | 10.00% | 10.00% |"
    none = record | {"cost": None, "first": None}
    assert "none" in table([none])
