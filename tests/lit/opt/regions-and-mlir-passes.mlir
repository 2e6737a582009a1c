// RUN: anabranch-opt %s --pass-pipeline='builtin.module(canonicalize,cse)' | filecheck %s

// Tests that MLIR's own passes work inside regions but move nothing across: equal ops are merged in one region, and stay in two.
// CHECK-LABEL: func.func @main
// CHECK: arith.constant dense<2.0
// CHECK: "anabranch.region"(%arg0, %{{.*}}) ({
// CHECK: arith.constant dense<2.0
// CHECK-NEXT: %[[S:.*]] = arith.addf
// CHECK-NEXT: arith.mulf %[[S]], %[[S]]
// CHECK: }) {stream = 1 : i64}
// CHECK: "anabranch.region"
// CHECK: arith.constant dense<2.0
// CHECK-NEXT: arith.addf
// CHECK: }) {stream = 0 : i64}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c = arith.constant dense<2.0> : tensor<4xf32>
  %r = "anabranch.region"(%x, %c) ({
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %two = arith.constant dense<2.0> : tensor<4xf32>
    %s = arith.addf %a, %two : tensor<4xf32>
    %again = arith.constant dense<2.0> : tensor<4xf32>
    %t = arith.addf %a, %again : tensor<4xf32>
    %m = arith.mulf %s, %t : tensor<4xf32>
    "anabranch.yield"(%m) : (tensor<4xf32>) -> ()
  }) {stream = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = "anabranch.region"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    %two = arith.constant dense<2.0> : tensor<4xf32>
    %s = arith.addf %a, %two : tensor<4xf32>
    "anabranch.yield"(%s) : (tensor<4xf32>) -> ()
  }) {stream = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %r, %q : tensor<4xf32>, tensor<4xf32>
}
