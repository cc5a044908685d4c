"""Prices checked by hand on programs small enough to count."""

from __future__ import annotations

import math

import pytest

from tests.modules import argument_group, evaluator_of, text
from toast.costmodel.evaluator import Action, Cost, Evaluator, Reward
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.collectives import Kind, collective_tables
from toast.costmodel.resolved import resolve

CPU = find("cpu")
MLP_FLOPS = 2 * 256 * 32 * 64 + 2 * 256 * 64 * 16


def mlp(mesh: str = "b=2,m=4") -> tuple[Evaluator, int, int, int]:
    evaluator = evaluator_of(text("mlp"), mesh)
    analysis = evaluator.analysis
    batch, hidden = argument_group(analysis, 0, 0), argument_group(analysis, 1, 1)
    return evaluator, batch, hidden, argument_group(analysis, 0, 1)


def test_unsharded_compute_is_the_roofline_of_two_products() -> None:
    evaluator, *_ = mlp()
    cost = evaluator.cost(())
    arithmetic = MLP_FLOPS / (CPU.flops["f32"] * CPU.matmul_efficiency)
    traffic = 4 * (256 * 32 + 32 * 64 + 2 * 256 * 64 + 64 * 16 + 256 * 16)
    assert cost.communication == 0
    assert cost.compute >= arithmetic
    assert cost.compute <= arithmetic + traffic / (CPU.bandwidth * 0.8) + 4 * CPU.op_overhead


def test_arguments_and_results_make_the_peak() -> None:
    evaluator, *_ = mlp()
    arguments = 4 * (256 * 32 + 32 * 64 + 64 * 16)
    hidden, result = 4 * 256 * 64, 4 * 256 * 16
    assert evaluator.cost(()).peak == arguments + hidden + result


def test_a_batch_split_divides_what_has_a_batch() -> None:
    evaluator, batch, *_ = mlp()
    cost = evaluator.cost((Action(group=batch, axis=0),))
    weights = 4 * (32 * 64 + 64 * 16)
    rest = 4 * (256 * 32 + 256 * 64 + 256 * 16)
    assert cost.peak == weights + rest / 2


@pytest.mark.parametrize("axis", [0, 1])
def test_an_all_reduce_costs_what_the_formula_says(axis: int) -> None:
    evaluator, _, hidden, _ = mlp()
    n = evaluator.mesh.axes[axis].size
    (row,) = resolve(evaluator, (Action(group=hidden, axis=axis),)).totals()
    wire = 2 * 256 * 16 * 4 * (n - 1) / n
    link = CPU.links[0]
    assert row.kind is Kind.ALL_REDUCE
    assert row.bytes == wire
    ring = 2 * (n - 1) * link.latency + wire / link.bandwidth
    tree = 2 * math.log2(n) * link.latency + 2 * 256 * 16 * 4 / link.bandwidth
    assert row.seconds == pytest.approx(min(ring, tree))


def test_a_weight_sharded_over_the_batch_axis_is_gathered_at_its_use() -> None:
    evaluator, batch, _, inner = mlp()
    state = (Action(group=batch, axis=0), Action(group=inner, axis=0))
    kinds = {row.kind: row.bytes for row in resolve(evaluator, state).totals()}
    # x keeps the batch; w1 is [32, 64] with 32 over b: each device receives half of it.
    assert kinds == {Kind.ALL_GATHER: 32 * 64 * 4 / 2}


def test_a_contracting_dimension_that_comes_first_is_summed() -> None:
    evaluator, _, _, inner = mlp()
    kinds = [row.kind for row in resolve(evaluator, (Action(group=inner, axis=0),)).totals()]
    assert kinds == [Kind.ALL_REDUCE]


def test_an_axis_that_does_not_divide_changes_nothing() -> None:
    evaluator, batch, *_ = mlp("x=3,b=2")
    assert evaluator.cost((Action(group=batch, axis=0),)).key == evaluator.cost(()).key


def test_two_axes_on_one_dimension() -> None:
    evaluator, batch, *_ = mlp()
    both = evaluator.cost((Action(group=batch, axis=0), Action(group=batch, axis=1)))
    one = evaluator.cost((Action(group=batch, axis=0),))
    assert both.peak < one.peak
    assert both.communication == 0


def test_the_reward_is_the_papers() -> None:
    reward = Reward(seconds=2.0, peak=100.0, memory=50.0, penalty=3.0)
    fits = Cost(compute=1.0, communication=0.5, peak=50.0, room=50.0, key=0)
    over = Cost(compute=1.0, communication=0.0, peak=75.0, room=75.0, key=0)
    assert reward.of(fits) == 0.75
    assert reward.of(over) == 0.5 + 3.0 * 25 / 100
    for cost in (fits, over):
        assert reward.step_seconds(reward.of(cost), cost.peak) == pytest.approx(cost.seconds)


def test_donated_results_take_no_memory_of_their_own() -> None:
    def module(attribute: str) -> bytes:
        return (
            f"func.func @main(%x: tensor<64xf32> {attribute}) -> tensor<64xf32> {{"
            " %y = stablehlo.sine %x : tensor<64xf32>"
            " return %y : tensor<64xf32> }"
        ).encode()

    kept = evaluator_of(module(""), "a=2").cost(()).peak
    donated = evaluator_of(module("{tf.aliasing_output = 0 : i32}"), "a=2").cost(()).peak
    offered = evaluator_of(module("{jax.buffer_donor = true}"), "a=2").cost(()).peak
    assert (kept, donated, offered) == (512, 256, 256)


def test_a_halo_is_a_permute_and_not_a_gather() -> None:
    data = (
        b"func.func @main(%x: tensor<1x32x32x4xf32>, %k: tensor<3x3x4x1xf32>)"
        b" -> tensor<1x32x32x1xf32> {"
        b" %y = stablehlo.convolution(%x, %k)"
        b" dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
        b" window = {stride = [1, 1], pad = [[1, 1], [1, 1]]}"
        b" {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        b" : (tensor<1x32x32x4xf32>, tensor<3x3x4x1xf32>) -> tensor<1x32x32x1xf32>"
        b" return %y : tensor<1x32x32x1xf32> }"
    )
    evaluator = evaluator_of(data, "s=4")
    rows = resolve(
        evaluator, (Action(group=argument_group(evaluator.analysis, 0, 1), axis=0),)
    ).totals()
    assert [row.kind for row in rows] == [Kind.COLLECTIVE_PERMUTE]
    # a strip of 2 of the 32 rows, each 32 x 4 floats
    assert rows[0].bytes == 2 * 32 * 4 * 4


def test_loop_bodies_count_by_their_trips() -> None:
    def module(trips: int) -> bytes:
        return f"""
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<{trips}> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<64x64xf32>
   cond {{
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<64x64xf32>
  }}
  return %r#1 : tensor<64x64xf32>
}}""".encode()

    three, six = (evaluator_of(module(n), "a=2").cost(()).compute for n in (3, 6))
    assert six == pytest.approx(2 * three, rel=0.01)


def test_partial_sums_take_memory_and_traffic_until_they_are_scattered() -> None:
    evaluator, batch, _, inner = mlp()
    summed = evaluator.cost((Action(group=inner, axis=0),))
    hidden = 4 * 256 * 64
    assert len(evaluator.tables.sums.row) >= 2
    # y is written as partial sums and read again after the all-reduce, besides all other traffic
    assert summed.compute >= 2 * hidden / (CPU.bandwidth * CPU.stream_efficiency)
    both = evaluator.cost((Action(group=batch, axis=0), Action(group=inner, axis=1)))
    assert both.peak < summed.peak


@pytest.mark.parametrize("device", ["tpu-v5e", "a100-40gb", "v100-16gb"])
def test_the_kernel_looks_collectives_up_in_the_tables(device: str) -> None:
    evaluator = evaluator_of(text("mlp"), "b=8,m=4", device)
    analysis = evaluator.analysis
    hidden, inner = argument_group(analysis, 1, 1), argument_group(analysis, 0, 1)
    found = collective_tables(evaluator.mesh, evaluator.device)
    seen = set()
    for state in (
        (Action(group=hidden, axis=0),),
        (Action(group=hidden, axis=0), Action(group=hidden, axis=1)),
        (Action(group=argument_group(analysis, 0, 0), axis=0), Action(group=inner, axis=0)),
    ):
        for row in resolve(evaluator, state).totals():
            axes = sum(1 << axis for axis in row.axes)
            size = row.bytes / row.count / found.wire[row.kind, axes]
            sent = found.seconds(row.kind, axes, size) + evaluator.tables.chip.launched
            assert row.seconds == pytest.approx(row.count * sent)
            seen.add((row.kind, axes))
    assert {(Kind.ALL_REDUCE, 1), (Kind.ALL_REDUCE, 3), (Kind.ALL_GATHER, 1)} <= seen


@pytest.mark.parametrize(("device", "fusions"), [("tpu-v5e", 1.0), ("a100-40gb", 0.0)])
def test_a_tpu_launches_fusions_beside_collectives(device: str, fusions: float) -> None:
    """Each has one, to cut, pack and put in place."""
    evaluator = evaluator_of(text("mlp"), "b=8,m=4", device)
    overhead = evaluator.device.op_overhead
    assert evaluator.tables.chip.launched == pytest.approx(fusions * overhead)


def test_a_mesh_that_says_the_networks_is_priced_by_them() -> None:
    def seconds(mesh: str) -> float:
        evaluator = evaluator_of(text("mlp"), mesh, "a100-40gb")
        group = argument_group(evaluator.analysis, 1, 1)
        return evaluator.cost((Action(group=group, axis=1),)).communication

    assert seconds("b=2,m=4") == seconds("b=2@nvlink,m=4@nvlink")
    assert seconds("b=2@nvlink,m=4@infiniband") > seconds("b=2@infiniband,m=4@nvlink") > 0
