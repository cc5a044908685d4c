"""Small programs with calls, with a region of `shard_map`, and with branches known beforehand."""

from __future__ import annotations

TWICE = b"""
func.func public @main(%x: tensor<8x16xf32>, %y: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %a = call @both(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %b = call @both(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = stablehlo.dot_general %b, %y, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
func.func private @both(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %a = call @one(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %b = call @one(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %b : tensor<8x16xf32>
}
func.func private @one(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %a = stablehlo.tanh %x : tensor<8x16xf32>
  return %a : tensor<8x16xf32>
}
"""
REGION = b"""
module {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
      -> tensor<8x16xf32> {
    %a = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {"model"}]>]
        out_shardings=[<@mesh, [{"data"}, {"model"}]>] manual_axes={"data", "model"}
        (%p: tensor<4x4xf32>) {
      %s = "stablehlo.all_reduce"(%p) <{
          replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          use_global_device_ids}> ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %t = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %t : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      sdy.return %s : tensor<4x4xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %b = sdy.sharding_constraint %a <@mesh, [{}, {"model"}]> : tensor<8x16xf32>
    %c = stablehlo.tanh %b : tensor<8x16xf32>
    return %c : tensor<8x16xf32>
  }
}
"""
UNREAD_REGION = REGION.replace(
    b"%c = stablehlo.tanh %b : tensor<8x16xf32>",
    b"""%i = stablehlo.constant dense<0> : tensor<i32>
    %c = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<8x16xf32>
    }, {
      %d = stablehlo.tanh %b : tensor<8x16xf32>
      stablehlo.return %d : tensor<8x16xf32>
    }) : (tensor<i32>) -> tensor<8x16xf32>""",
)
"""The region is read by a branch that never runs."""
_USES_CHOSEN = b"""
func.func public @main(%x: tensor<8x16xf32>, %y: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %a = call @chosen(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %b = stablehlo.dot_general %a, %y, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}
"""
BRANCH = (
    _USES_CHOSEN
    + b"""
func.func private @chosen(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %unread = stablehlo.abs %x : tensor<8x16xf32>
  %i = stablehlo.constant dense<1> : tensor<i32>
  %a = "stablehlo.case"(%i) ({
    %s = stablehlo.sine %unread : tensor<8x16xf32>
    stablehlo.return %s : tensor<8x16xf32>
  }, {
    %s = stablehlo.tanh %x : tensor<8x16xf32>
    stablehlo.return %s : tensor<8x16xf32>
  }) : (tensor<i32>) -> tensor<8x16xf32>
  return %a : tensor<8x16xf32>
}
"""
)
BRANCH_CHOSEN = (
    _USES_CHOSEN
    + b"""
func.func private @chosen(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %a = stablehlo.tanh %x : tensor<8x16xf32>
  return %a : tensor<8x16xf32>
}
"""
)
