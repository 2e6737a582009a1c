// RUN: anabranch-opt %s --verify-streams --split-input-file | filecheck %s

!t = !torch.vtensor<[4],f32>

// Tests that work on two streams with its forks and joins is accepted unchanged.
// CHECK-LABEL: func.func @two_streams
// CHECK: "anabranch.fork_stream"(%arg0)
// CHECK: "anabranch.join_stream"
// CHECK: torch.aten.add.Tensor
func.func @two_streams(%x: !t) -> !t {
  %int1 = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %r = torch.aten.relu %x : !t -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %y = torch.aten.add.Tensor %h0, %r, %int1 : !t, !t, !torch.int -> !t
  return %y : !t
}

// Tests that a floating value may be used on any stream, also next to a definite one: %w is not forked.
// CHECK-LABEL: func.func @floating
func.func @floating(%x: !t, %w: !t) -> (!t, !t) {
  %int1 = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.add.Tensor %x1, %w, %int1 : !t, !t, !torch.int -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %y = torch.aten.add.Tensor %h0, %w, %int1 : !t, !t, !torch.int -> !t
  return %y, %w : !t, !t
}

// Tests that a fork between two side streams is accepted.
// CHECK-LABEL: func.func @siblings
func.func @siblings(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %h2 = "anabranch.fork_stream"(%h) {source = 1 : i64, target = 2 : i64} : (!t) -> !t
  %g = torch.aten.relu %h2 : !t -> !t
  %y = "anabranch.join_stream"(%g) {source = 2 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}

// Tests that lists of tensors carry their tensors' stream.
// CHECK-LABEL: func.func @lists
func.func @lists(%x: !t) -> !torch.vtensor<[8],f32> {
  %int0 = torch.constant.int 0
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %list = torch.prim.ListConstruct %x1, %x1 : (!t, !t) -> !torch.list<vtensor>
  %h = torch.aten.cat %list, %int0 : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[8],f32>
  %y = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32>
  return %y : !torch.vtensor<[8],f32>
}
