// Two layers, for the budget beside it.
func.func public @main(%x: tensor<256x32xf32>, %w1: tensor<32x64xf32>, %w2: tensor<64x16xf32>)
    -> tensor<256x16xf32> {
  %y = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
    : (tensor<256x32xf32>, tensor<32x64xf32>) -> tensor<256x64xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<256x64xf32>
  %z = stablehlo.maximum %y, %zero : tensor<256x64xf32>
  %w = stablehlo.dot_general %z, %w2, contracting_dims = [1] x [0]
    : (tensor<256x64xf32>, tensor<64x16xf32>) -> tensor<256x16xf32>
  return %w : tensor<256x16xf32>
}
