// RUN: anabranch-opt %s --form-kernels --split-input-file | filecheck %s

!t = !torch.vtensor<[4,8],f32>
!w = !torch.vtensor<[8,8],f32>

// Tests that a view runs nothing, that a product stays PyTorch's, and that what follows it becomes one kernel.
// CHECK-LABEL: func.func private @kernel_0
// CHECK-SAME: anabranch.kernel, anabranch.ops = ["aten.relu", "aten.exp"]
// CHECK: torch.aten.relu
// CHECK-NEXT: torch.aten.exp
// CHECK-NEXT: return
// CHECK-LABEL: func.func @chain
// CHECK: %[[T:.*]] = "anabranch.view"(%{{.*}}) {arguments = "%0", callee = "aten.t.default", layouts = ["float32[8, 8] strides [1, 8] on cpu"]}
// CHECK-NEXT: %[[M:.*]] = "anabranch.extern"(%{{.*}}, %[[T]]) {arguments = "%0, %1", callee = "aten.mm.default", layouts = ["float32[4, 8] strides [8, 1] on cpu"]}
// CHECK-NEXT: %[[Y:.*]] = "anabranch.call_kernel"(%[[M]]) {callee = @kernel_0, layouts = ["float32[4, 8] strides [8, 1] on cpu"]}
// CHECK-NEXT: "anabranch.yield"(%[[Y]])
func.func @chain(%x: !t {anabranch.layout = "float32[4, 8] strides [8, 1] on cpu"}, %w: !w {anabranch.layout = "float32[8, 8] strides [8, 1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x, %w) ({
  ^bb0(%a: !t, %b: !w):
    %1 = torch.aten.t %b : !w -> !w
    %2 = torch.aten.mm %a, %1 : !t, !w -> !t
    %3 = torch.aten.relu %2 : !t -> !t
    %4 = torch.aten.exp %3 : !t -> !t
    "anabranch.yield"(%4) : (!t) -> ()
  }) {stream = 0 : i64} : (!t, !w) -> !t
  return %0 : !t
}

// -----
!t = !torch.vtensor<[8,8],f32>

// Tests that kernels with the same text are one function, on whichever streams they run.
// CHECK: func.func private @kernel_0
// CHECK-NOT: func.func private
// CHECK: func.func @equal
// CHECK: callee = @kernel_0
// CHECK: callee = @kernel_0
func.func @equal(%x: !t {anabranch.layout = "float32[8, 8] strides [8, 1] on cpu"}) -> (!t, !t) {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %1 = torch.aten.relu %a : !t -> !t
    "anabranch.yield"(%1) : (!t) -> ()
  }) {stream = 1 : i64} : (!t) -> !t
  %2 = "anabranch.region"(%0) ({
  ^bb0(%a: !t):
    %1 = torch.aten.relu %a : !t -> !t
    "anabranch.yield"(%1) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %0, %2 : !t, !t
}

// -----
!t = !torch.vtensor<[8,8],f32>

// Tests that a kernel is convex: the product needs relu and add needs the product, so relu and add are two kernels.
// CHECK-LABEL: func.func @convex
// CHECK: %[[R:.*]] = "anabranch.call_kernel"
// CHECK: %[[M:.*]] = "anabranch.extern"(%[[R]], %[[R]]) {arguments = "%0, %1", callee = "aten.mm.default"
// CHECK: "anabranch.call_kernel"(%[[M]], %[[R]])
func.func @convex(%x: !t {anabranch.layout = "float32[8, 8] strides [8, 1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %int1 = torch.constant.int 1
    %1 = torch.aten.relu %a : !t -> !t
    %2 = torch.aten.mm %1, %1 : !t, !t -> !t
    %3 = torch.aten.add.Tensor %2, %1, %int1 : !t, !t, !torch.int -> !t
    "anabranch.yield"(%3) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %0 : !t
}

// -----
!t = !torch.vtensor<[4,8],f32>
!c = !torch.vtensor<[4,1],f32>

// Tests that a row reduction takes the elementwise ops around it into its kernel, and not another kind of row.
// CHECK: anabranch.ops = ["aten.exp", "aten.sum.dim_IntList", "aten.div.Tensor"]
// CHECK: anabranch.ops = ["aten.mean"]
// CHECK-LABEL: func.func @rows
func.func @rows(%x: !t {anabranch.layout = "float32[4, 8] strides [8, 1] on cpu"}) -> (!torch.vtensor<[],f32>) {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %int-1 = torch.constant.int -1
    %true = torch.constant.bool true
    %none = torch.constant.none
    %dims = torch.prim.ListConstruct %int-1 : (!torch.int) -> !torch.list<int>
    %1 = torch.aten.exp %a : !t -> !t
    %2 = torch.aten.sum.dim_IntList %1, %dims, %true, %none : !t, !torch.list<int>, !torch.bool, !torch.none -> !c
    %3 = torch.aten.div.Tensor %1, %2 : !t, !c -> !t
    %4 = torch.aten.mean %3, %none : !t, !torch.none -> !torch.vtensor<[],f32>
    "anabranch.yield"(%4) : (!torch.vtensor<[],f32>) -> ()
  }) {stream = 0 : i64} : (!t) -> !torch.vtensor<[],f32>
  return %0 : !torch.vtensor<[],f32>
}

// -----
!t = !torch.vtensor<[4,8],f32>
!h = !torch.vtensor<[4,4],f32>

// Tests that lists of tensors are read and written: what an op returns in a list are results, what it takes are operands.
// CHECK-LABEL: func.func @lists
// CHECK: %[[H:.*]]:2 = "anabranch.view"(%{{.*}}) {arguments = "%0, 4, 1", callee = "aten.split.Tensor"
// CHECK-NEXT: "anabranch.extern"(%[[H]]#1, %[[H]]#0) {arguments = "[%0, %1], 1", callee = "aten.cat.default"
func.func @lists(%x: !t {anabranch.layout = "float32[4, 8] strides [8, 1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %int1 = torch.constant.int 1
    %int4 = torch.constant.int 4
    %int0 = torch.constant.int 0
    %l = torch.aten.split.Tensor %a, %int4, %int1 : !t, !torch.int, !torch.int -> !torch.list<vtensor>
    %1 = torch.aten.__getitem__.t %l, %int0 : !torch.list<vtensor>, !torch.int -> !h
    %2 = torch.aten.__getitem__.t %l, %int1 : !torch.list<vtensor>, !torch.int -> !h
    %m = torch.prim.ListConstruct %2, %1 : (!h, !h) -> !torch.list<vtensor>
    %3 = torch.aten.cat %m, %int1 : !torch.list<vtensor>, !torch.int -> !t
    "anabranch.yield"(%3) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %0 : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that work on two devices is no kernel: a copy from the host is PyTorch's, with its flags.
// CHECK-LABEL: func.func @devices
// CHECK: %[[C:.*]] = "anabranch.extern"(%{{.*}}) {arguments = "%0, device=torch.device('cuda:0'), non_blocking=True", callee = "aten._to_copy.default", layouts = ["float32[4] strides [1] on cuda:0"]}
// CHECK-NEXT: "anabranch.call_kernel"(%[[C]]) {callee = @kernel_0, layouts = ["float32[4] strides [1] on cuda:0"]}
func.func @devices(%x: !t {anabranch.layout = "float32[4] strides [1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %none = torch.constant.none
    %true = torch.constant.bool true
    %cuda = torch.constant.device "cuda:0"
    %1 = torch.aten._to_copy %a, %none, %none, %cuda, %none, %true, %none : !t, !torch.none, !torch.none, !torch.Device, !torch.none, !torch.bool, !torch.none -> !t
    %2 = torch.aten.relu %1 : !t -> !t
    "anabranch.yield"(%2) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %0 : !t
}
