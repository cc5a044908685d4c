"""A module that says how it is sharded."""

from __future__ import annotations

MODULE = b"""
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%x: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
                %w: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", ?}, {?}]>},
                %v: tensor<64xf32> {mhlo.sharding = "{devices=[4,2]<=[2,4]T(1,0) \
last_tile_dim_replicate}"})
    -> (tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  %c = sdy.sharding_constraint %y <@mesh, [{"data"}, {"model"}]> : tensor<64x64xf32>
  %d = stablehlo.custom_call @Sharding(%c) {mhlo.sharding = "{replicated}"}
    : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = stablehlo.sine %d {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"data"}, {}]>]>}
    : tensor<64x64xf32>
  return %z : tensor<64x64xf32>
}
"""
