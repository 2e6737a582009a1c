// RUN: anabranch-opt %s --plan-memory --split-input-file | filecheck %s

!m = memref<4xf32, strided<[1]>>

// Tests that on one stream a buffer takes the bytes of one that is not used any more, and that the arena says its size.
// CHECK-LABEL: func.func @reuse
// CHECK-SAME: anabranch.arena = {cpu = 1024 : i64}
// CHECK: "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"}
// CHECK: "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 512 : i64, space = "arena"}
// CHECK: "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"}
func.func @reuse(%x: !m) {
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%x, %a) {callee = @f, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %b = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 512 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%a, %b) {callee = @g, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %c = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 1024 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%b, %c) {callee = @h, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that a buffer that another stream may still be reading keeps its bytes, until a wait says that it is done.
// CHECK-LABEL: func.func @other_stream
// CHECK-SAME: anabranch.arena = {cpu = 1024 : i64}
// CHECK: "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"}
// CHECK: "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 512 : i64, space = "arena"}
// CHECK: "anabranch.wait_event"({{.*}}) {stream = 0 : i64}
// CHECK: "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"}
func.func @other_stream(%x: !m) {
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%x, %a) {callee = @f, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %e = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 1 : i64} : (!anabranch.event) -> ()
  "anabranch.launch"(%a, %x) {callee = @g, operandSegmentSizes = array<i32: 1, 1>, stream = 1 : i64} : (!m, !m) -> ()
  %f = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  %b = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 512 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%x, %b) {callee = @h, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  "anabranch.wait_event"(%f) {stream = 0 : i64} : (!anabranch.event) -> ()
  %c = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 1024 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%x, %c) {callee = @h, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that an op's output never lies where its input lies, that each device has its arena, and that results stay apart.
// CHECK-LABEL: func.func @apart
// CHECK-SAME: anabranch.arena = {cpu = 512 : i64, "cuda:0" = 512 : i64}
// CHECK: device = "cpu", offset = 0 : i64, space = "arena"
// CHECK: device = "cuda:0", offset = 0 : i64, space = "arena"
// CHECK: device = "cuda:0", offset = 0 : i64, space = "output"
func.func @apart(%x: !m) -> !m {
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%x, %a) {callee = @f, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %b = "anabranch.alloc"() {bytes = 16 : i64, device = "cuda:0", offset = 0 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%a, %b) {callee = @g, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %c = "anabranch.alloc"() {bytes = 16 : i64, device = "cuda:0", offset = 0 : i64, space = "output"} : () -> !m
  "anabranch.launch"(%b, %c) {callee = @h, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  return %c : !m
}
