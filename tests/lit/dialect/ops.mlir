// RUN: anabranch-opt %s --split-input-file | anabranch-opt --split-input-file | filecheck %s

// Tests that a boundary takes tensors of several types at once, of torch's dialect and of builtin.
// CHECK-LABEL: func.func @boundaries
func.func @boundaries(%a: !torch.vtensor<[2,3],f32>, %b: tensor<4xi64>) -> tensor<4xi64> {
  // CHECK: %[[F:.*]]:2 = "anabranch.fork_stream"(%arg0, %arg1) {source = 0 : i64, target = 1 : i64} : (!torch.vtensor<[2,3],f32>, tensor<4xi64>)
  %f:2 = "anabranch.fork_stream"(%a, %b) {source = 0 : i64, target = 1 : i64} : (!torch.vtensor<[2,3],f32>, tensor<4xi64>) -> (!torch.vtensor<[2,3],f32>, tensor<4xi64>)
  // CHECK: "anabranch.join_stream"(%[[F]]#1) {source = 1 : i64, target = 0 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  %j = "anabranch.join_stream"(%f#1) {source = 1 : i64, target = 0 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  return %j : tensor<4xi64>
}

// -----

// Tests that a region takes and gives values of different types, and that the ops of kernel form stand in it.
// CHECK-LABEL: func.func @regions
func.func @regions(%a: tensor<2x3xf32>, %w: tensor<3xf32>) -> (tensor<2xf32>, tensor<3x2xf32>) {
  // CHECK: "anabranch.region"(%arg0, %arg1) ({
  %r:2 = "anabranch.region"(%a, %w) ({
  ^bb0(%x: tensor<2x3xf32>, %y: tensor<3xf32>):
    // CHECK: "anabranch.call_kernel"
    %0 = "anabranch.call_kernel"(%x, %y) {callee = @kernel_0, layouts = ["float32[2, 3] strides [3, 1] on cuda:0"]} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    // CHECK: "anabranch.extern"
    %1 = "anabranch.extern"(%0, %y) {arguments = "%0, %1", callee = "aten.mv.default", layouts = ["float32[2] strides [1] on cuda:0"]} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
    // CHECK: "anabranch.view"
    %2 = "anabranch.view"(%0) {arguments = "%0", callee = "aten.t.default", layouts = ["float32[3, 2] strides [1, 3] on cuda:0"]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    // CHECK: "anabranch.yield"
    "anabranch.yield"(%1, %2) : (tensor<2xf32>, tensor<3x2xf32>) -> ()
  // CHECK: {stream = 0 : i64}
  }) {stream = 0 : i64} : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %r#0, %r#1 : tensor<2xf32>, tensor<3x2xf32>
}

// -----

// Tests that the ops of schedule form are read and printed.
// CHECK-LABEL: func.func @schedule
func.func @schedule(%a: memref<2x3xf32>, %w: memref<3xf32>) -> memref<2xf32> {
  // CHECK: "anabranch.alloc"() {bytes = 8 : i64, device = "cuda:0", offset = 0 : i64, space = "output"} : () -> memref<2xf32>
  %o = "anabranch.alloc"() {bytes = 8 : i64, device = "cuda:0", offset = 0 : i64, space = "output"} : () -> memref<2xf32>
  // CHECK: %[[E:.*]] = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  %e = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  // CHECK: "anabranch.wait_event"(%[[E]]) {stream = 1 : i64}
  "anabranch.wait_event"(%e) {stream = 1 : i64} : (!anabranch.event) -> ()
  // CHECK: "anabranch.launch"{{.*}}operandSegmentSizes = array<i32: 1, 1>
  "anabranch.launch"(%w, %o) {callee = @kernel_0, operandSegmentSizes = array<i32: 1, 1>, stream = 1 : i64} : (memref<3xf32>, memref<2xf32>) -> ()
  // CHECK: "anabranch.call_extern"{{.*}}convention = "out"
  "anabranch.call_extern"(%a, %w, %o) {arguments = "%0, %1", callee = "aten.mv.default", convention = "out", operandSegmentSizes = array<i32: 2, 1>, stream = 1 : i64} : (memref<2x3xf32>, memref<3xf32>, memref<2xf32>) -> ()
  return %o : memref<2xf32>
}
