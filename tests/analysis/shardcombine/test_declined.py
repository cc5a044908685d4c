"""What is never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.shardcombine.tools import Counting, one_op, ops_of
from toast.analysis.shardcombine import Discoverer, discover_all
from toast.analysis.shardcombine.extract import may_run, text_of

REGION = (
    "({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> "
    "stablehlo.return %s : tensor<f32> })"
)
DECLINED = {
    "random": (
        (
            "%r, %s = stablehlo.rng_bit_generator %0, algorithm = THREE_FRY "
            ": (tensor<2xui64>) -> (tensor<2xui64>, tensor<64xui32>)"
        ),
        ["2xui64"],
    ),
    "collective": (
        (
            f'%r = "stablehlo.all_reduce"(%0) <{{replica_groups = dense<[[0, 1]]> : '
            f"tensor<1x2xi64>}}> {REGION} : (tensor<64xf32>) -> tensor<64xf32>"
        ),
        ["64xf32"],
    ),
    "unknown call": (
        "%r = stablehlo.custom_call @launch_missiles(%0) : (tensor<64xf32>) -> tensor<64xf32>",
        ["64xf32"],
    ),
    "call with an effect": (
        (
            "%r = stablehlo.custom_call @mhlo.erf(%0) {has_side_effect = true} "
            ": (tensor<64xf32>) -> tensor<64xf32>"
        ),
        ["64xf32"],
    ),
    "no operands": ("%r = stablehlo.iota dim = 0 : tensor<64xf32>", []),
    "control flow": (
        (
            "%r = stablehlo.while(%x = %0) : tensor<i1> cond { stablehlo.return %x : tensor<i1> } "
            "do { stablehlo.return %x : tensor<i1> }"
        ),
        ["i1"],
    ),
    "a type without arrays": (
        "%r = stablehlo.convert %0 : (tensor<8xf32>) -> tensor<8xi2>",
        ["8xf32"],
    ),
    "another dialect": (
        "%r = sdy.propagation_barrier %0 allowed_direction=NONE : tensor<8xf32>",
        ["8xf32"],
    ),
}


@pytest.mark.parametrize("name", sorted(DECLINED))
def test_declined(name: str, tmp_path: Path) -> None:
    counting = Counting()
    with ops_of(one_op(*DECLINED[name])) as ops:
        assert not may_run(ops[0])
        assert Discoverer(folder=tmp_path, runner=counting).rule(ops[0]) is None
    assert counting.requests == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seen", ["%1", "%s"])
def test_a_region_that_sees_values_outside_cannot_stand_alone(seen: str) -> None:
    op = (
        "%s = stablehlo.negate %1 : tensor<f32> "
        '%r = "stablehlo.sort"(%0) <{dimension = 0 : i64}> '
        "({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): "
        f"%t = stablehlo.compare LT, %p, {seen} : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        "stablehlo.return %t : tensor<i1> }) : (tensor<8xf32>) -> tensor<8xf32>"
    )
    with ops_of(one_op(op, ["8xf32", "f32"])) as ops:
        assert may_run(ops[0])
        assert not may_run(ops[1])


def test_annotations_do_not_change_what_an_op_is() -> None:
    plain = "%r = stablehlo.negate %0 : tensor<8xf32>"
    marked = '%r = stablehlo.negate %0 {mhlo.sharding = "{replicated}"} : tensor<8xf32>'
    texts = []
    for text in (plain, marked):
        with ops_of(one_op(text, ["8xf32"])) as ops:
            texts.append(text_of(ops[0]))
    assert texts[0] == texts[1]


def test_a_batch_answers_for_every_op(tmp_path: Path) -> None:
    text = (
        "%a = stablehlo.negate %0 : tensor<8xf32> "
        "%b = stablehlo.custom_call @who_knows(%0) : (tensor<8xf32>) -> tensor<8xf32>"
    )
    counting = Counting()
    with ops_of(one_op(text, ["8xf32"])) as ops:
        found = discover_all(ops, folder=tmp_path, runner=counting)
        assert [found[op] is None for op in ops] == [False, True]
    assert counting.closed == 1
