// RUN: anabranch-opt %s --schedule --split-input-file | filecheck %s

!t = !torch.vtensor<[4],f32>

// Tests that each call is launched on its region's stream, with an event after what another stream reads, that side work
// starts after the call's entry and ends before the return, and that results get memory of their own.
// CHECK-LABEL: func.func @two_streams
// CHECK-NEXT: %[[START:.*]] = "anabranch.record_event"() {stream = 0 : i64}
// CHECK-NEXT: "anabranch.wait_event"(%[[START]]) {stream = 1 : i64}
// CHECK-NEXT: %[[A:.*]] = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"}
// CHECK-NEXT: "anabranch.launch"(%arg0, %[[A]]) {callee = @kernel_0, {{.*}}stream = 1 : i64}
// CHECK-NEXT: %[[E:.*]] = "anabranch.record_event"() {stream = 1 : i64}
// CHECK-NEXT: "anabranch.wait_event"(%[[E]]) {stream = 0 : i64}
// CHECK-NEXT: %[[B:.*]] = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "output"}
// CHECK-NEXT: "anabranch.launch"(%[[A]], %[[B]]) {callee = @kernel_0, {{.*}}stream = 0 : i64}
// CHECK-NEXT: "anabranch.wait_event"(%[[E]]) {stream = 0 : i64}
// CHECK-NEXT: return %[[B]]
func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {anabranch.kernel} {
  return %x : tensor<4xf32>
}
func.func @two_streams(%x: !t {anabranch.layout = "float32[4] strides [1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %1 = "anabranch.call_kernel"(%a) {callee = @kernel_0, layouts = ["float32[4] strides [1] on cpu"]} : (!t) -> !t
    "anabranch.yield"(%1) : (!t) -> ()
  }) {stream = 1 : i64} : (!t) -> !t
  %2 = "anabranch.region"(%0) ({
  ^bb0(%a: !t):
    %1 = "anabranch.call_kernel"(%a) {callee = @kernel_0, layouts = ["float32[4] strides [1] on cpu"]} : (!t) -> !t
    "anabranch.yield"(%1) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %2 : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that streams are issued in turn and not one whole branch after the other.
// CHECK-LABEL: func.func @in_turn
// CHECK: "anabranch.call_extern"({{.*}}stream = 1 : i64
// CHECK: "anabranch.call_extern"({{.*}}stream = 2 : i64
// CHECK: "anabranch.call_extern"({{.*}}stream = 1 : i64
// CHECK: "anabranch.call_extern"({{.*}}stream = 2 : i64
// CHECK: return
func.func @in_turn(%x: !t {anabranch.layout = "float32[4] strides [1] on cpu"}) -> (!t, !t) {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %1 = "anabranch.extern"(%a) {callee = "aten.sinc.default", arguments = "%0", layouts = ["float32[4] strides [1] on cpu"]} : (!t) -> !t
    %2 = "anabranch.extern"(%1) {callee = "aten.sinc.default", arguments = "%0", layouts = ["float32[4] strides [1] on cpu"]} : (!t) -> !t
    "anabranch.yield"(%2) : (!t) -> ()
  }) {stream = 1 : i64} : (!t) -> !t
  %3 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %1 = "anabranch.extern"(%a) {callee = "aten.sinc.default", arguments = "%0", layouts = ["float32[4] strides [1] on cpu"]} : (!t) -> !t
    %2 = "anabranch.extern"(%1) {callee = "aten.sinc.default", arguments = "%0", layouts = ["float32[4] strides [1] on cpu"]} : (!t) -> !t
    "anabranch.yield"(%2) : (!t) -> ()
  }) {stream = 2 : i64} : (!t) -> !t
  return %0, %3 : !t, !t
}

// -----
!t = !torch.vtensor<[4,4],f32>
!e = !torch.vtensor<[3,4],f32>
!i = !torch.vtensor<[3],si64>

// Tests that a result which an op of a side stream allocates itself is copied for the caller, and that the side stream
// waits for the copy before it takes its memory back.
// CHECK-LABEL: func.func @own_memory
// CHECK: %[[F:.*]] = "anabranch.alloc"() {bytes = 48 : i64, device = "cpu", offset = 0 : i64, space = "foreign"}
// CHECK-NEXT: "anabranch.call_extern"(%arg0, %arg1, %[[F]]) {{.*}}callee = "aten.embedding.default", convention = "return"{{.*}}stream = 1 : i64}
// CHECK: %[[C:.*]] = "anabranch.alloc"() {bytes = 48 : i64, device = "cpu", offset = 0 : i64, space = "output"}
// CHECK-NEXT: "anabranch.call_extern"(%[[F]], %[[C]]) {{.*}}callee = "aten.copy_.default", convention = "out"{{.*}}stream = 0 : i64}
// CHECK: %[[END:.*]] = "anabranch.record_event"() {stream = 0 : i64}
// CHECK-NEXT: "anabranch.wait_event"(%[[END]]) {stream = 1 : i64}
// CHECK-NEXT: return %[[C]]
func.func @own_memory(%w: !t {anabranch.layout = "float32[4, 4] strides [4, 1] on cpu"}, %i: !i {anabranch.layout = "int64[3] strides [1] on cpu"}) -> !e {
  %0 = "anabranch.region"(%w, %i) ({
  ^bb0(%a: !t, %b: !i):
    %1 = "anabranch.extern"(%a, %b) {callee = "aten.embedding.default", arguments = "%0, %1", layouts = ["float32[3, 4] strides [4, 1] on cpu"]} : (!t, !i) -> !e
    "anabranch.yield"(%1) : (!e) -> ()
  }) {stream = 1 : i64} : (!t, !i) -> !e
  return %0 : !e
}

// -----
!t = !torch.vtensor<[2,3],f32>
!u = !torch.vtensor<[3,2],f32>

// Tests that a view is written where it is first used, runs on no stream, and that a view of an argument may be returned.
// CHECK-LABEL: func.func @views
// CHECK-NEXT: %[[V:.*]] = "anabranch.view"(%arg0) {arguments = "%0", callee = "aten.t.default", layouts = ["float32[3, 2] strides [1, 3] on cpu"]} : (memref<2x3xf32, strided<[3, 1]>>) -> memref<3x2xf32, strided<[1, 3]>>
// CHECK-NEXT: return %[[V]]
func.func @views(%x: !t {anabranch.layout = "float32[2, 3] strides [3, 1] on cpu"}) -> !u {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %1 = "anabranch.view"(%a) {callee = "aten.t.default", arguments = "%0", layouts = ["float32[3, 2] strides [1, 3] on cpu"]} : (!t) -> !u
    "anabranch.yield"(%1) : (!u) -> ()
  }) {stream = 0 : i64} : (!t) -> !u
  return %0 : !u
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that the call comes after what the caller put on a stream of its own, and before what it puts there next.
// CHECK-LABEL: func.func @callers_stream
// CHECK-NEXT: %[[U:.*]] = "anabranch.record_event"() {stream = 1 : i64}
// CHECK-NEXT: "anabranch.wait_event"(%[[U]]) {stream = 0 : i64}
// CHECK-NEXT: %[[END:.*]] = "anabranch.record_event"() {stream = 0 : i64}
// CHECK-NEXT: "anabranch.wait_event"(%[[END]]) {stream = 1 : i64}
// CHECK-NEXT: return %arg0
module attributes {anabranch.streams = {"0" = "current", "1" = "user"}} {
  func.func @callers_stream(%x: !t {anabranch.layout = "float32[4] strides [1] on cpu"}) -> !t {
    return %x : !t
  }
}
