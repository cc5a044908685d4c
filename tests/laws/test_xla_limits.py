"""What XLA's partitioner gets wrong, as docs/ops.md lists it; a test fails when one is mended.

The modules are sharded by hand, in ways in which plans never shard them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.laws.chains import tensor
from tests.laws.layout import Array
from tests.laws.xla import Xla
from tests.laws.xla_child import Reply, Request
from toast.plans.plan import Spec

MESH = [("x", 2), ("y", 4)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """An op `line` on arguments `%a0`, `%a1`, ... with layouts."""

    line: str
    shapes: list[tuple[int, ...]]
    result: tuple[int, ...]
    specs: list[Spec]
    result_spec: Spec

    def text(self, *, sharded: bool) -> str:
        """The module, with or without its shardings."""
        arguments = ", ".join(
            f"%a{i}: {tensor(shape)}{_attribute(spec) if sharded else ''}"
            for i, (shape, spec) in enumerate(zip(self.shapes, self.specs, strict=True))
        )
        made = tensor(self.result)
        result = f"{made}{_attribute(self.result_spec) if sharded else ''}"
        attributes = "attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} "
        mesh = 'sdy.mesh @mesh = <["x"=2, "y"=4]>'
        return (
            f"module {attributes if sharded else ''}{{\n{mesh if sharded else ''}\n"
            f"func.func public @main({arguments}) -> ({result}) {{\n"
            "  %z = stablehlo.constant dense<0.5> : tensor<f32>\n"
            "  %k = stablehlo.constant dense<1.0> : tensor<3x1x1xf32>\n"
            f"  %r = {self.line}\n  return %r : {made}\n}}\n}}"
        )

    def run(self, xla: Xla) -> Reply:
        """Whole and in shards."""
        return xla.run(
            Request(
                original=self.text(sharded=False).encode(),
                sharded=self.text(sharded=True).encode(),
                mesh=MESH,
                arguments=self.specs,
                results=[(self.result_spec, self.result)],
                inputs=[_numbers(shape) for shape in self.shapes],
            )
        )


def _attribute(spec: Spec) -> str:
    dims = ", ".join("{" + ", ".join(f'"{axis}"' for axis in axes) + "}" for axes in spec)
    return f" {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}"


def _numbers(shape: tuple[int, ...]) -> Array:
    size = int(np.prod(shape))
    return (np.arange(size) % 7 + 1).reshape(shape).astype(np.float32)


def _conv(filters: tuple[int, ...], result: tuple[int, ...], window: str, groups: int = 1) -> str:
    return (
        "stablehlo.convolution(%a0, %a1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        f"window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : "
        f"i64}} : (tensor<4x8x4xf32>, {tensor(filters)}) -> {tensor(result)}"
    )


_MAXIMUM = (
    "{^bb0(%x: tensor<f32>, %y: tensor<f32>): %c = stablehlo.maximum %x, %y : tensor<f32>\n"
    "stablehlo.return %c : tensor<f32>}"
)
LIMITS = {
    "interior padding": Pinned(
        line="stablehlo.pad %a0, %z, low = [0], high = [1], interior = [1] : "
        "(tensor<3xf32>, tensor<f32>) -> tensor<6xf32>",
        shapes=[(3,)],
        result=(6,),
        specs=[[[]]],
        result_spec=[["x"]],
    ),
    "interior padding of what is cut": Pinned(
        line="stablehlo.pad %a0, %z, low = [-1], high = [0], interior = [1] : "
        "(tensor<4xf32>, tensor<f32>) -> tensor<6xf32>",
        shapes=[(4,)],
        result=(6,),
        specs=[[["x"]]],
        result_spec=[["x"]],
    ),
    "a shift": Pinned(
        line="stablehlo.pad %a0, %z, low = [1], high = [-1], interior = [0] : "
        "(tensor<4xf32>, tensor<f32>) -> tensor<4xf32>",
        shapes=[(4,)],
        result=(4,),
        specs=[[[]]],
        result_spec=[["x"]],
    ),
    "windows shifted by padding": Pinned(
        line=f'"stablehlo.reduce_window"(%a0, %z) ({_MAXIMUM}) {{window_dimensions = '
        "array<i64: 2>, window_strides = array<i64: 2>, padding = dense<[[1, 0]]> : "
        "tensor<1x2xi64>} : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>",
        shapes=[(8,)],
        result=(4,),
        specs=[[[]]],
        result_spec=[["x"]],
    ),
    "shards shorter than the window": Pinned(
        line=_conv((3, 1, 1), (1, 2, 1), "pad = [[0, 0]]")
        .replace("4x8x4", "1x4x1")
        .replace("%a1", "%k"),
        shapes=[(1, 4, 1)],
        result=(1, 2, 1),
        specs=[[[], ["x"], []]],
        result_spec=[[], ["x"], []],
    ),
    "space and output features": Pinned(
        line=_conv((3, 4, 4), (4, 8, 4), "pad = [[1, 1]]"),
        shapes=[(4, 8, 4), (3, 4, 4)],
        result=(4, 8, 4),
        specs=[[[], ["x"], []], [[], [], ["y"]]],
        result_spec=[[], ["x"], ["y"]],
    ),
    "groups of windows of one": Pinned(
        line=_conv((1, 2, 4), (4, 8, 4), "pad = [[0, 0]]", groups=2),
        shapes=[(4, 8, 4), (1, 2, 4)],
        result=(4, 8, 4),
        specs=[[[], [], ["x"]], [[], [], ["x"]]],
        result_spec=[[], [], ["x"]],
    ),
}


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_xla_still_gets_it_wrong(xla: Xla, name: str) -> None:
    reply = LIMITS[name].run(xla)
    right = isinstance(reply, tuple) and np.array_equal(reply[0][0], reply[1][0])
    assert not right, f"XLA does {name} now: plans need not keep away from it any more"
