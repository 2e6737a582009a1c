// RUN: anabranch-opt %s --pass-pipeline='builtin.module(lower-kernels)' | filecheck %s

// Tests that a chain of elementwise ops becomes one linalg op, and that layouts and the kernel mark stay.
// CHECK-LABEL: func.func private @chain(
// CHECK-SAME:    %[[X:.*]]: tensor<4x16xf32> {anabranch.layout = "float32[4, 16] strides [1, 4] on cuda:0"}
// CHECK-SAME:    tensor<16xf32>
// CHECK-SAME:    -> (tensor<4x16xf32> {anabranch.layout = "float32[4, 16] strides [16, 1] on cuda:0"})
// CHECK-SAME:    attributes {anabranch.kernel}
// CHECK:         linalg.generic
// CHECK:           arith.addf
// CHECK:           math.exp
// CHECK-NOT:     linalg.generic
// CHECK:         return
func.func private @chain(
    %x: !torch.vtensor<[4,16],f32> {anabranch.layout = "float32[4, 16] strides [1, 4] on cuda:0"},
    %b: !torch.vtensor<[16],f32>
  ) -> (!torch.vtensor<[4,16],f32> {anabranch.layout = "float32[4, 16] strides [16, 1] on cuda:0"})
    attributes {anabranch.kernel} {
  %one = torch.constant.int 1
  %0 = torch.aten.add.Tensor %x, %b, %one : !torch.vtensor<[4,16],f32>, !torch.vtensor<[16],f32>, !torch.int -> !torch.vtensor<[4,16],f32>
  %1 = torch.aten.exp %0 : !torch.vtensor<[4,16],f32> -> !torch.vtensor<[4,16],f32>
  return %1 : !torch.vtensor<[4,16],f32>
}

// Tests that the row maximum and the row sum of a softmax become reductions.
// CHECK-LABEL: func.func private @softmax(
// CHECK:         iterator_types = ["parallel", {{.*}}"reduction"]
// CHECK:           arith.maximumf
// CHECK:         iterator_types = ["parallel", {{.*}}"reduction"]
// CHECK:           arith.addf
// CHECK:         arith.divf
func.func private @softmax(%x: !torch.vtensor<[4,16],f32>) -> !torch.vtensor<[4,16],f32> attributes {anabranch.kernel} {
  %dim = torch.constant.int -1
  %false = torch.constant.bool false
  %0 = torch.aten._softmax %x, %dim, %false : !torch.vtensor<[4,16],f32>, !torch.int, !torch.bool -> !torch.vtensor<[4,16],f32>
  return %0 : !torch.vtensor<[4,16],f32>
}

// Tests that clamp keeps nan, which torch-mlir alone would replace by the bound.
// CHECK-LABEL: func.func private @clamp(
// CHECK:         arith.cmpf une, %[[V:.*]], %[[V]]
func.func private @clamp(%x: !torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32> attributes {anabranch.kernel} {
  %low = torch.constant.float -1.000000e+00
  %none = torch.constant.none
  %0 = torch.aten.clamp %x, %low, %none : !torch.vtensor<[8],f32>, !torch.float, !torch.none -> !torch.vtensor<[8],f32>
  return %0 : !torch.vtensor<[8],f32>
}

// Tests that functions which are no kernels stay as they are.
// CHECK-LABEL: func.func @main(
// CHECK:         torch.aten.relu
func.func @main(%x: !torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32> {
  %0 = torch.aten.relu %x : !torch.vtensor<[8],f32> -> !torch.vtensor<[8],f32>
  return %0 : !torch.vtensor<[8],f32>
}
