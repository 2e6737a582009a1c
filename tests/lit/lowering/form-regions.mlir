// RUN: anabranch-opt %s --form-regions --split-input-file | filecheck %s

!t = !torch.vtensor<[4],f32>

// Tests that the ops of each stream become regions whose operands and results are all that crosses, and that work of stream
// 0 which does not need the side stream stands in a region that does not wait for it.
// CHECK-LABEL: func.func @two_branches(%arg0
// CHECK-NEXT: %[[H:.*]] = "anabranch.region"(%arg0) ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: !torch.vtensor<[4],f32>):
// CHECK-NEXT: %[[R:.*]] = torch.aten.relu %[[A]]
// CHECK-NEXT: "anabranch.yield"(%[[R]])
// CHECK-NEXT: }) {stream = 1 : i64}
// CHECK-NEXT: %[[M:.*]] = "anabranch.region"(%arg0) ({
// CHECK: torch.aten.sin
// CHECK: }) {stream = 0 : i64}
// CHECK-NEXT: %[[Y:.*]] = "anabranch.region"(%[[H]], %[[M]]) ({
// CHECK: torch.constant.int 1
// CHECK-NEXT: torch.aten.add.Tensor
// CHECK: }) {stream = 0 : i64}
// CHECK-NEXT: return %[[Y]]
func.func @two_branches(%x: !t) -> !t {
  %int1 = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %m = torch.aten.sin %x : !t -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %y = torch.aten.add.Tensor %h0, %m, %int1 : !t, !t, !torch.int -> !t
  return %y : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a region ends where another stream uses one of its values, so that the wait is for no later work.
// CHECK-LABEL: func.func @ends_at_use
// CHECK: torch.aten.relu
// CHECK-NEXT: "anabranch.yield"
// CHECK-NEXT: }) {stream = 1 : i64}
// CHECK: torch.aten.sin
// CHECK: }) {stream = 0 : i64}
// CHECK: torch.aten.cos
// CHECK: }) {stream = 1 : i64}
func.func @ends_at_use(%x: !t) -> (!t, !t) {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %y = torch.aten.sin %h0 : !t -> !t
  %g = torch.aten.cos %h : !t -> !t
  %g0 = "anabranch.join_stream"(%g) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y, %g0 : !t, !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a value passes from one side stream to another without the caller's stream.
// CHECK-LABEL: func.func @side_to_side
// CHECK-NEXT: %[[A:.*]] = "anabranch.region"(%arg0)
// CHECK: }) {stream = 1 : i64}
// CHECK-NEXT: %[[B:.*]] = "anabranch.region"(%[[A]])
// CHECK: }) {stream = 2 : i64}
// CHECK-NEXT: return %[[B]]
func.func @side_to_side(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %h2 = "anabranch.fork_stream"(%h) {source = 1 : i64, target = 2 : i64} : (!t) -> !t
  %g = torch.aten.sin %h2 : !t -> !t
  %g0 = "anabranch.join_stream"(%g) {source = 2 : i64, target = 0 : i64} : (!t) -> !t
  return %g0 : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a program on one stream is one region, and that one without work has none.
// CHECK-LABEL: func.func @one_stream
// CHECK: "anabranch.region"
// CHECK-NOT: "anabranch.region"
// CHECK-LABEL: func.func @nothing
// CHECK-NEXT: return %arg0
func.func @one_stream(%x: !t) -> !t {
  %h = torch.aten.relu %x : !t -> !t
  %g = torch.aten.sin %h : !t -> !t
  return %g : !t
}
func.func @nothing(%x: !t) -> !t {
  return %x : !t
}

// -----
!t = !torch.vtensor<[4],f32>
!i = !torch.vtensor<[4],si64>

// Tests that a list of tensors is made anew inside the region that uses it.
// CHECK-LABEL: func.func @list
// CHECK: "anabranch.region"(%{{.*}}, %{{.*}}) ({
// CHECK: torch.prim.ListConstruct
// CHECK: torch.aten.cat
func.func @list(%x: !t, %y: !t) -> !torch.vtensor<[8],f32> {
  %int0 = torch.constant.int 0
  %list = torch.prim.ListConstruct %x, %y : (!t, !t) -> !torch.list<vtensor>
  %z = torch.aten.cat %list, %int0 : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[8],f32>
  return %z : !torch.vtensor<[8],f32>
}
