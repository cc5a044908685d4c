// The conflict of TOAST sections 2.2 and 3.3: z would be [S, S].
func.func public @main(%x: tensor<32x4xf32>) -> tensor<32x32xf32> {
  %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<32x4xf32>) -> tensor<4x32xf32>
  %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<32x4xf32>, tensor<4x32xf32>) -> tensor<32x32xf32>
  return %z : tensor<32x32xf32>
}
