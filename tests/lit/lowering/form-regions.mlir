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

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a stream's next op which needs a region closed later than its own was opened starts a new one: the sin on stream 2
// does not wait for stream 1.
// CHECK-LABEL: func.func @holds_nothing_back(%arg0
// CHECK-NEXT: %[[EARLY:.*]] = "anabranch.region"(%arg0)
// CHECK: torch.aten.sin
// CHECK: }) {stream = 2 : i64}
// CHECK-NEXT: %[[H:.*]] = "anabranch.region"(%arg0)
// CHECK: torch.aten.relu
// CHECK: }) {stream = 1 : i64}
// CHECK-NEXT: %{{.*}} = "anabranch.region"(%[[EARLY]], %[[H]])
// CHECK: torch.aten.mul.Tensor
// CHECK: }) {stream = 2 : i64}
func.func @holds_nothing_back(%x: !t) -> !t {
  %x2 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 2 : i64} : (!t) -> !t
  %early = torch.aten.sin %x2 : !t -> !t
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %h2 = "anabranch.fork_stream"(%h) {source = 1 : i64, target = 2 : i64} : (!t) -> !t
  %m = torch.aten.mul.Tensor %early, %h2 : !t, !t -> !t
  %y = "anabranch.join_stream"(%m) {source = 2 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a region that was open when it needs a value of one closed before goes on: its earlier op waits for no more.
// CHECK-LABEL: func.func @goes_on
// CHECK: torch.aten.relu
// CHECK: }) {stream = 1 : i64}
// CHECK: "anabranch.region"
// CHECK: torch.aten.sin
// CHECK: torch.aten.mul.Tensor
// CHECK: }) {stream = 0 : i64}
// CHECK-NEXT: return
func.func @goes_on(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %s = torch.aten.sin %h0 : !t -> !t
  %m = torch.aten.mul.Tensor %s, %h0 : !t, !t -> !t
  return %m : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a diamond has the region above, both sides, which need only that one, and the region below.
// CHECK-LABEL: func.func @diamond
// CHECK-NEXT: %[[TOP:.*]] = "anabranch.region"(%arg0)
// CHECK: }) {stream = 0 : i64}
// CHECK-NEXT: %[[LEFT:.*]] = "anabranch.region"(%[[TOP]])
// CHECK: }) {stream = 1 : i64}
// CHECK-NEXT: %[[RIGHT:.*]] = "anabranch.region"(%[[TOP]])
// CHECK: }) {stream = 2 : i64}
// CHECK-NEXT: %[[Y:.*]] = "anabranch.region"(%[[LEFT]], %[[RIGHT]])
// CHECK: }) {stream = 0 : i64}
// CHECK-NEXT: return %[[Y]]
func.func @diamond(%x: !t) -> !t {
  %top = torch.aten.exp %x : !t -> !t
  %a1 = "anabranch.fork_stream"(%top) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %a = torch.aten.relu %a1 : !t -> !t
  %b2 = "anabranch.fork_stream"(%top) {source = 0 : i64, target = 2 : i64} : (!t) -> !t
  %b = torch.aten.sin %b2 : !t -> !t
  %a0 = "anabranch.join_stream"(%a) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %b0 = "anabranch.join_stream"(%b) {source = 2 : i64, target = 0 : i64} : (!t) -> !t
  %y = torch.aten.mul.Tensor %a0, %b0 : !t, !t -> !t
  return %y : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a stream forked from a side stream and joined there stands between that stream's two regions.
// CHECK-LABEL: func.func @nested
// CHECK: torch.aten.relu
// CHECK: }) {stream = 1 : i64}
// CHECK: torch.aten.sin
// CHECK: }) {stream = 2 : i64}
// CHECK: torch.aten.mul.Tensor
// CHECK: }) {stream = 1 : i64}
// CHECK-NEXT: return
func.func @nested(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %outer = torch.aten.relu %x1 : !t -> !t
  %outer2 = "anabranch.fork_stream"(%outer) {source = 1 : i64, target = 2 : i64} : (!t) -> !t
  %inner = torch.aten.sin %outer2 : !t -> !t
  %inner1 = "anabranch.fork_stream"(%inner) {source = 2 : i64, target = 1 : i64} : (!t) -> !t
  %m = torch.aten.mul.Tensor %outer, %inner1 : !t, !t -> !t
  %y = "anabranch.join_stream"(%m) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that constants are copied into each region that uses them, equal ones once.
// CHECK-LABEL: func.func @constants
// CHECK-NEXT: %{{.*}} = "anabranch.region"(%arg0)
// CHECK: torch.constant.int 1
// CHECK-NOT: torch.constant.int 1
// CHECK: }) {stream = 1 : i64}
// CHECK-NEXT: %{{.*}} = "anabranch.region"
// CHECK: torch.constant.int 1
// CHECK: }) {stream = 0 : i64}
func.func @constants(%x: !t) -> !t {
  %int1 = torch.constant.int 1
  %also1 = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.add.Tensor %x1, %x1, %int1 : !t, !t, !torch.int -> !t
  %g = torch.aten.sub.Tensor %h, %x1, %also1 : !t, !t, !torch.int -> !t
  %g0 = "anabranch.join_stream"(%g) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %y = torch.aten.add.Tensor %g0, %x, %int1 : !t, !t, !torch.int -> !t
  return %y : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that work nobody uses keeps its stream but leaves its region by no result.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: "anabranch.region"(%arg0) ({
// CHECK: torch.aten.relu
// CHECK-NEXT: "anabranch.yield"() : () -> ()
// CHECK-NEXT: }) {stream = 1 : i64}
// CHECK-NEXT: return %arg0
func.func @dead(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  return %x : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a tensor is taken out of a list in the region where an op made the list, though another stream closed it since.
// CHECK-LABEL: func.func @unpacked_late
// CHECK: torch.aten.split.Tensor
// CHECK-NEXT: torch.prim.ListUnpack
// CHECK-NEXT: torch.aten.exp
// CHECK-NEXT: torch.prim.ListUnpack
// CHECK: }) {stream = 0 : i64}
// CHECK: torch.aten.relu
// CHECK: }) {stream = 1 : i64}
func.func @unpacked_late(%x: !torch.vtensor<[8],f32>) -> (!t, !t) {
  %int0 = torch.constant.int 0
  %int4 = torch.constant.int 4
  %parts = torch.aten.split.Tensor %x, %int4, %int0 : !torch.vtensor<[8],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
  %a:2 = torch.prim.ListUnpack %parts : !torch.list<vtensor> -> !t, !t
  %e = torch.aten.exp %a#0 : !t -> !t
  %e1 = "anabranch.fork_stream"(%e) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %e1 : !t -> !t
  %b:2 = torch.prim.ListUnpack %parts : !torch.list<vtensor> -> !t, !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %h0, %b#1 : !t, !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that tensors taken out of a list that was written out are like the results of any op.
// CHECK-LABEL: func.func @unpacked_list
// CHECK: torch.prim.ListConstruct
// CHECK-NEXT: torch.prim.ListUnpack
// CHECK-NEXT: torch.aten.relu
func.func @unpacked_list(%x: !t, %y: !t) -> !t {
  %list = torch.prim.ListConstruct %x, %y : (!t, !t) -> !torch.list<vtensor>
  %two:2 = torch.prim.ListUnpack %list : !torch.list<vtensor> -> !t, !t
  %h = torch.aten.relu %two#1 : !t -> !t
  return %h : !t
}
