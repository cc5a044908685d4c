// The simplified attention of TOAST figure 5a: softmax is mocked by averaging.
func.func public @main(%x: tensor<64x32xf32>, %wq: tensor<32x16xf32>, %wk: tensor<32x16xf32>,
    %wv: tensor<32x8xf32>) -> tensor<64x8xf32> {
  %k = stablehlo.dot_general %x, %wk, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %v = stablehlo.dot_general %x, %wv, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
  %q = stablehlo.dot_general %x, %wq, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %qt = stablehlo.transpose %q, dims = [1, 0] : (tensor<64x16xf32>) -> tensor<16x64xf32>
  %a = stablehlo.dot_general %k, %qt, contracting_dims = [1] x [0]
    : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
  %d = stablehlo.divide %a, %c : tensor<64x64xf32>
  %z = stablehlo.dot_general %d, %v, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  return %z : tensor<64x8xf32>
}
