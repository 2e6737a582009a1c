// RUN: anabranch-opt %s --elide-waits --split-input-file | filecheck %s
// RUN: anabranch-opt %s --elide-waits --elide-waits --split-input-file | filecheck %s

!m = memref<4xf32, strided<[1]>>

// Tests that of two waits before an op the later event covers the earlier, that a second wait for an event goes, and that
// an event nobody waits for goes.
// CHECK-LABEL: func.func @covered
// CHECK: callee = @a
// CHECK-NEXT: callee = @b
// CHECK-NEXT: %[[F:.*]] = "anabranch.record_event"() {stream = 1 : i64}
// CHECK-NEXT: "anabranch.wait_event"(%[[F]]) {stream = 0 : i64}
// CHECK-NEXT: callee = @c
// CHECK-NEXT: callee = @d
// CHECK-NEXT: return
func.func @covered(%x: !m, %y: !m) {
  "anabranch.launch"(%x) {callee = @a, operandSegmentSizes = array<i32: 0, 1>, stream = 1 : i64} : (!m) -> ()
  %e = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  "anabranch.launch"(%y) {callee = @b, operandSegmentSizes = array<i32: 0, 1>, stream = 1 : i64} : (!m) -> ()
  %f = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  "anabranch.wait_event"(%f) {stream = 0 : i64} : (!anabranch.event) -> ()
  "anabranch.launch"(%x) {callee = @c, operandSegmentSizes = array<i32: 0, 1>, stream = 0 : i64} : (!m) -> ()
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  "anabranch.launch"(%y) {callee = @d, operandSegmentSizes = array<i32: 0, 1>, stream = 0 : i64} : (!m) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that a wait goes where a third stream has passed on the order.
// CHECK-LABEL: func.func @passed_on
// CHECK: callee = @a
// CHECK: "anabranch.wait_event"({{.*}}) {stream = 2 : i64}
// CHECK: callee = @b
// CHECK: "anabranch.wait_event"({{.*}}) {stream = 0 : i64}
// CHECK-NEXT: callee = @c
func.func @passed_on(%x: !m) {
  "anabranch.launch"(%x) {callee = @a, operandSegmentSizes = array<i32: 0, 1>, stream = 1 : i64} : (!m) -> ()
  %e = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 2 : i64} : (!anabranch.event) -> ()
  "anabranch.launch"(%x) {callee = @b, operandSegmentSizes = array<i32: 0, 1>, stream = 2 : i64} : (!m) -> ()
  %f = "anabranch.record_event"() {stream = 2 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  "anabranch.wait_event"(%f) {stream = 0 : i64} : (!anabranch.event) -> ()
  "anabranch.launch"(%x) {callee = @c, operandSegmentSizes = array<i32: 0, 1>, stream = 0 : i64} : (!m) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that waits which are all needed stay: two streams, and the entry, before which the caller made the arguments.
// CHECK-LABEL: func.func @needed
// CHECK: "anabranch.wait_event"({{.*}}) {stream = 1 : i64}
// CHECK: "anabranch.wait_event"({{.*}}) {stream = 2 : i64}
// CHECK: "anabranch.wait_event"({{.*}}) {stream = 0 : i64}
// CHECK: "anabranch.wait_event"({{.*}}) {stream = 0 : i64}
// CHECK: return
func.func @needed(%x: !m, %y: !m) {
  %s = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%s) {stream = 1 : i64} : (!anabranch.event) -> ()
  "anabranch.launch"(%x) {callee = @a, operandSegmentSizes = array<i32: 0, 1>, stream = 1 : i64} : (!m) -> ()
  %e = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%s) {stream = 2 : i64} : (!anabranch.event) -> ()
  "anabranch.launch"(%y) {callee = @b, operandSegmentSizes = array<i32: 0, 1>, stream = 2 : i64} : (!m) -> ()
  %f = "anabranch.record_event"() {stream = 2 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  "anabranch.wait_event"(%f) {stream = 0 : i64} : (!anabranch.event) -> ()
  return
}
