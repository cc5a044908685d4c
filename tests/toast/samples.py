"""A small module, its sharded form and a plan of it, for tests that need no planner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toast.plans.plan import Plan

ORIGINAL = """\
module @two_layers {
  func.func public @main(%x: tensor<8x16xf32> loc("x"), %w: tensor<16x32xf32> loc("w"))
      -> (tensor<8x32xf32>, tensor<f32>) {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<8x32xf32>, tensor<f32>) -> tensor<f32>
    return %y, %sum : tensor<8x32xf32>, tensor<f32>
  }
}
"""

SHARDED = (
    ORIGINAL.replace("@two_layers {", '@two_layers {\n  sdy.mesh @mesh = <["data"=2, "model"=2]>')
    .replace(
        'tensor<8x16xf32> loc("x")',
        'tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>} loc("x")',
    )
    .replace(
        'tensor<16x32xf32> loc("w")',
        'tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("w")',
    )
    .replace(
        "-> (tensor<8x32xf32>, tensor<f32>)",
        '-> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>},'
        " tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>})",
    )
)

MIB = 2**20


def cost(step: float, peak: int, *, fits: bool = True) -> dict[str, Any]:
    """A `Cost` whose time is two thirds compute."""
    return {
        "step_seconds": step,
        "compute_seconds": step * 2 / 3,
        "communication_seconds": step / 3,
        "peak_bytes": peak,
        "fits": fits,
    }


def tensor(index: int, name: str, shape: list[int], spec: list[list[str]]) -> dict[str, Any]:
    """A `Tensor` or, less its index, a `Group`, of f32."""
    return {"index": index, "name": name, "shape": shape, "dtype": "f32", "spec": spec}


def make_plan(**changes: Any) -> Plan:
    """The plan of `SHARDED`, with fields replaced."""
    x = tensor(0, "x", [8, 16], [["data"], []])
    w = tensor(1, "w", [16, 32], [[], ["model"]])
    fields: dict[str, Any] = {
        "mesh": {"axes": [{"name": "data", "size": 2}, {"name": "model", "size": 2}]},
        "device": "tpu-v5e",
        "memory_bytes": 16 * MIB,
        "module": {"sha256": "0" * 64, "ops": 3, "arguments": 2},
        "arguments": [x, w],
        "results": [
            tensor(0, "y", [8, 32], [["data"], ["model"]]),
            tensor(1, "sum", [], []),
        ],
        "groups": [
            {key: value for key, value in each.items() if key != "index"}
            | {"arguments": [each["index"]]}
            for each in (x, w)
        ],
        "constraints": [{"value": "0:stablehlo.dot_general#0", "spec": [["data"], ["model"]]}],
        "predicted": cost(0.002, 4 * MIB),
        "unsharded": cost(0.006, 12 * MIB),
        "baselines": [{"name": "data_parallel", **cost(0.003, 8 * MIB)}],
        "collectives": [
            {
                "kind": "all_reduce",
                "axes": ["data", "model"],
                "count": 1,
                "bytes": 4,
                "seconds": 1e-6,
            }
        ],
        "decisions": [
            {
                "colour": "batch",
                "axis": "data",
                "resolution": "",
                "cost_after": 0.5,
                "step_seconds_after": 0.003,
                "peak_bytes_after": 8 * MIB,
            },
            {
                "colour": "hidden",
                "axis": "model",
                "resolution": "first",
                "cost_after": 0.25,
                "step_seconds_after": 0.002,
                "peak_bytes_after": 4 * MIB,
            },
        ],
        "search": {
            "planner": "mcts",
            "seed": 0,
            "threads": 2,
            "rollouts": 100,
            "evaluations": 1234,
            "seconds": 0.5,
            "termination": "converged",
            "cost": 0.25,
        },
        "stages": {"load": 0.1, "analyse": 0.2, "search": 0.5, "write": 0.05},
        "unpriced": [{"op": "custom_call @mystery", "count": 2, "reason": "no_rule"}],
        "warnings": ["the vocabulary of 50257 is divided by no axis"],
        "versions": {"toast": "0.1.0", "jaxlib": "0.10.2"},
    }
    return Plan.model_validate(fields | changes)


def write_plan_directory(directory: Path, *, sharded: str = SHARDED, **changes: Any) -> Path:
    """What `toast plan -o DIR` leaves, for this module."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "plan.json").write_text(make_plan(**changes).to_json())
    (directory / "original.mlir").write_text(ORIGINAL)
    (directory / "sharded.mlir").write_text(sharded)
    return directory
