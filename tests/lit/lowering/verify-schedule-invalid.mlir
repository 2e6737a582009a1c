// RUN: anabranch-opt %s --verify-schedule --split-input-file --verify-diagnostics

!m = memref<4xf32, strided<[1]>>

// Tests that a read of what another stream writes needs a wait.
func.func @no_wait(%x: !m) {
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "output"} : () -> !m
  "anabranch.launch"(%x, %a) {callee = @f, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %s = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%s) {stream = 1 : i64} : (!anabranch.event) -> ()
  %b = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "output"} : () -> !m
  "anabranch.launch"(%a, %b) {callee = @g, operandSegmentSizes = array<i32: 1, 1>, stream = 1 : i64} : (!m, !m) -> ()
  %c = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "output"} : () -> !m
  // expected-error@+1 {{race: launch of @h on stream 0 reads %2 but does not wait for launch of @g on stream 1, which writes it}}
  "anabranch.launch"(%b, %c) {callee = @h, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %e = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that side work starts after the call's entry.
func.func @no_entry(%x: !m) {
  // expected-error@+1 {{race: launch of @f on stream 1 writes %arg0 but does not wait for the call's entry, which writes it}}
  "anabranch.launch"(%x) {callee = @f, operandSegmentSizes = array<i32: 0, 1>, stream = 1 : i64} : (!m) -> ()
  %e = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that the caller goes on after all side work.
func.func @no_exit(%x: !m) {
  %s = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%s) {stream = 1 : i64} : (!anabranch.event) -> ()
  "anabranch.launch"(%x) {callee = @f, operandSegmentSizes = array<i32: 0, 1>, stream = 1 : i64} : (!m) -> ()
  // expected-error@+1 {{race: the return to stream 0 writes %arg0 but does not wait for launch of @f on stream 1, which writes it}}
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that a buffer takes bytes of another only after its last reader, on whichever stream.
func.func @early_reuse(%x: !m) {
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%x, %a) {callee = @f, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %s = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%s) {stream = 1 : i64} : (!anabranch.event) -> ()
  %b = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 512 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%a, %b) {callee = @g, operandSegmentSizes = array<i32: 1, 1>, stream = 1 : i64} : (!m, !m) -> ()
  %e = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  %c = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 8 : i64, space = "arena"} : () -> !m
  // expected-error@+1 {{race: launch of @h on stream 0 writes %4, which has bytes of %0, but does not wait for launch of @g on stream 1, which reads %0}}
  "anabranch.launch"(%x, %c) {callee = @h, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that an op does not write where it reads.
func.func @in_place(%x: !m) {
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  "anabranch.launch"(%x, %a) {callee = @f, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  %b = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  // expected-error@+1 {{race: launch of @g on stream 0}}
  "anabranch.launch"(%a, %b) {callee = @g, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that memory is written before it is read.
func.func @unwritten(%x: !m) {
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "arena"} : () -> !m
  // expected-error@+1 {{launch of @f on stream 0 reads %0, which nothing has written}}
  "anabranch.launch"(%a, %x) {callee = @f, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  return
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that a stream takes memory back only after the last reader on another stream.
func.func @foreign(%x: !m) -> !m {
  %s = "anabranch.record_event"() {stream = 0 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%s) {stream = 1 : i64} : (!anabranch.event) -> ()
  %a = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "foreign"} : () -> !m
  "anabranch.call_extern"(%x, %a) {callee = "aten.sinc.default", arguments = "%0", convention = "return", operandSegmentSizes = array<i32: 1, 1>, stream = 1 : i64} : (!m, !m) -> ()
  %e = "anabranch.record_event"() {stream = 1 : i64} : () -> !anabranch.event
  "anabranch.wait_event"(%e) {stream = 0 : i64} : (!anabranch.event) -> ()
  %b = "anabranch.alloc"() {bytes = 16 : i64, device = "cpu", offset = 0 : i64, space = "output"} : () -> !m
  "anabranch.launch"(%a, %b) {callee = @f, operandSegmentSizes = array<i32: 1, 1>, stream = 0 : i64} : (!m, !m) -> ()
  // expected-error@+1 {{race: its return to the memory of stream 1 writes %1 but does not wait for launch of @f on stream 0, which reads it}}
  return %b : !m
}

// -----
!m = memref<4xf32, strided<[1]>>

// Tests that an event that the schedule does not record is not waited for.
func.func @recorded_elsewhere(%x: !m, %e: !anabranch.event) {
  // expected-error@+1 {{waits for an event before it is recorded: it would never start}}
  "anabranch.wait_event"(%e) {stream = 1 : i64} : (!anabranch.event) -> ()
  return
}
