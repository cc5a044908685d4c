"""The breakdown of a price adds up to the price."""

from __future__ import annotations

import pytest

from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import PriceBreakdown, explain
from toast.costmodel.network.collectives import Kind
from toast.costmodel.resolved import resolve


def assert_adds_up(evaluator: Evaluator, state: tuple[Action, ...]) -> PriceBreakdown:
    """Every sum of terms is the evaluator's own figure: bytes exactly, seconds but for rounding."""
    breakdown, cost = explain(resolve(evaluator, state)), evaluator.cost(state)
    assert breakdown.cost == cost
    assert sum(row.seconds for row in breakdown.fusions) == pytest.approx(cost.compute, rel=1e-12)
    seconds = sum(row.seconds for row in breakdown.collectives)
    assert seconds == pytest.approx(cost.communication, rel=1e-12, abs=1e-300)
    assert sum(row.bytes for row in breakdown.alive) == cost.peak
    assert breakdown.timeline.max() == breakdown.timeline[breakdown.position] == cost.peak
    known = {(row.kind, row.axes): row for row in resolve(evaluator, state).totals()}
    found: dict[tuple[Kind, tuple[int, ...]], float] = {}
    for row in breakdown.collectives:
        key = (row.kind, row.axes)
        found[key] = found.get(key, 0.0) + row.bytes
    assert found == pytest.approx({key: row.bytes for key, row in known.items()})
    return breakdown


LOOP = b"""
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %v = %w)
    : tensor<i32>, tensor<64x64xf32>, tensor<64x64xf32>
   cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %b = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b, %v : tensor<i32>, tensor<64x64xf32>, tensor<64x64xf32>
  }
  return %r#1 : tensor<64x64xf32>
}"""
