// RUN: anabranch-opt %s --verify-schedule | filecheck %s

!m = memref<4xf32, strided<[1]>>

// Tests that a schedule without a race passes, and counts what was proved: %x and %a and %b each with entry and return, the
// write of %a with its read, and the two buffers that have the same bytes.
// CHECK-LABEL: func.func @ordered
// CHECK-SAME: anabranch.access_pairs = 16 : i64
func.func @ordered(%x: !m) {
  %s = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%s) {stream = 1 : i64} : (!anabranch.event) -> ()
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%a) {callee = @f, operandSegmentSizes = array<i32: 0, 1>, stream = 1 : i64} : (!m) -> ()
  %e = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  %b = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%x, %b) {callee = @g, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  return
}
