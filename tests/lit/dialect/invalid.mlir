// RUN: anabranch-opt %s --split-input-file --verify-diagnostics

// Tests that a boundary gives as many results as it takes operands.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{'anabranch.fork_stream' op returns each operand on the target stream: 1 operands but 0 results}}
  "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (tensor<2xf32>) -> ()
  return
}

// -----

// Tests that a boundary keeps types.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{operand 0 is tensor<2xf32> but result 0 is tensor<3xf32>}}
  %y = "anabranch.join_stream"(%x) {source = 1 : i64, target = 0 : i64} : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// Tests that only tensors cross.
func.func @f(%x: !torch.int) {
  // expected-error@+1 {{'anabranch.fork_stream' op takes tensors only: operand 0 is !torch.int}}
  %y = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!torch.int) -> !torch.int
  return
}

// -----

// Tests that a boundary has two sides.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{source and target are both 1}}
  %y = "anabranch.fork_stream"(%x) {source = 1 : i64, target = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Tests that stream ids are not negative.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{names streams by non-negative ids, not by -1}}
  %y = "anabranch.fork_stream"(%x) {source = 0 : i64, target = -1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Tests that a stream that the module does not have is refused with those that it has.
module attributes {anabranch.streams = {"0" = "current", "1" = "pool"}} {
  func.func @f(%x: tensor<2xf32>) {
    // expected-error@+1 {{'anabranch.fork_stream' op uses unknown stream id 7: this module has streams 0 (current), 1 (pool)}}
    %y = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 7 : i64} : (tensor<2xf32>) -> tensor<2xf32>
    return
  }
}

// -----

// Tests that an attribute that is missing is named.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{'anabranch.fork_stream' op needs an attribute 'target'}}
  %y = "anabranch.fork_stream"(%x) {source = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Tests that an attribute of another kind is refused.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{has 'target' = "pool", which is no IntegerAttr}}
  %y = "anabranch.fork_stream"(%x) {source = 0 : i64, target = "pool"} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Tests that a misspelt op is refused and the nearest name offered.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{unknown op 'anabranch.frok_stream': did you mean 'anabranch.fork_stream'?}}
  %y = "anabranch.frok_stream"(%x) {source = 0 : i64, target = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Tests that a region passes its operands to its block.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{passes its operands to its block: operands are (tensor<2xf32>), arguments ()}}
  "anabranch.region"(%x) ({
    "anabranch.yield"() : () -> ()
  }) {stream = 1 : i64} : (tensor<2xf32>) -> ()
  return
}

// -----

// Tests that a region returns what it yields.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{returns what it yields: results are (), yielded (tensor<2xf32>)}}
  "anabranch.region"(%x) ({
  ^bb0(%a: tensor<2xf32>):
    "anabranch.yield"(%a) : (tensor<2xf32>) -> ()
  }) {stream = 1 : i64} : (tensor<2xf32>) -> ()
  return
}

// -----

// Tests that a region sees nothing of the function but its operands.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{is isolated: 'anabranch.yield' in its body uses %arg0 from outside}}
  %r = "anabranch.region"() ({
    "anabranch.yield"(%x) : (tensor<2xf32>) -> ()
  }) {stream = 1 : i64} : () -> tensor<2xf32>
  return
}

// -----

// Tests that a region ends with a yield.
func.func @f() {
  // expected-error@+1 {{'anabranch.region' op ends with 'anabranch.yield'}}
  "anabranch.region"() ({
    %0 = arith.constant 1 : i64
  }) {stream = 1 : i64} : () -> ()
  return
}

// -----

// Tests that a yield stands in a region.
func.func @f() {
  // expected-error@+1 {{ends the body of 'anabranch.region', not of 'func.func'}}
  "anabranch.yield"() : () -> ()
  return
}

// -----

// Tests that a buffer lies in a known space.
func.func @f() {
  // expected-error@+1 {{has space 'heap': write one of arena, output, foreign}}
  %b = "anabranch.alloc"() {bytes = 8 : i64, device = "cpu", offset = 0 : i64, space = "heap"} : () -> memref<2xf32>
  return
}

// -----

// Tests that a buffer does not begin before its arena.
func.func @f() {
  // expected-error@+1 {{lies at -8 and has 8 bytes: neither can be negative}}
  %b = "anabranch.alloc"() {bytes = 8 : i64, device = "cpu", offset = -8 : i64, space = "arena"} : () -> memref<2xf32>
  return
}

// -----

// Tests that an extern call has a known convention.
func.func @f(%a: memref<2xf32>) {
  // expected-error@+1 {{has convention 'inplace': write one of out, return}}
  "anabranch.call_extern"(%a) {arguments = "%0", callee = "aten.relu_.default", convention = "inplace", operandSegmentSizes = array<i32: 1, 0>, stream = 0 : i64} : (memref<2xf32>) -> ()
  return
}

// -----

// Tests that two groups of operands are told apart.
func.func @f(%a: memref<2xf32>) {
  // expected-error@+1 {{takes inputs, outputs, counted by 'operandSegmentSizes', but has 1 operands}}
  "anabranch.launch"(%a) {callee = @kernel_0, stream = 0 : i64} : (memref<2xf32>) -> ()
  return
}

// -----

// Tests that only events are waited for.
func.func @f(%a: memref<2xf32>) {
  // expected-error@+1 {{has an event of type memref<2xf32>: it is a !anabranch.event}}
  "anabranch.wait_event"(%a) {stream = 0 : i64} : (memref<2xf32>) -> ()
  return
}

// -----

// Tests that what a record gives is an event.
func.func @f() {
  // expected-error@+1 {{'anabranch.record_event' op has an event of type i64: it is a !anabranch.event}}
  %e = "anabranch.record_event"() {stream = 0 : i64} : () -> i64
  return
}

// -----

// Tests that a stream table that is no table from ids to kinds is refused at the op that looks there.
module attributes {anabranch.streams = {"one" = "pool"}} {
  func.func @f(%x: tensor<2xf32>) {
    // expected-error@+1 {{cannot look up its streams: 'anabranch.streams' is {one = "pool"}: write what each stream is by its id}}
    %y = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
    return
  }
}

// -----

// Tests that an op with one result has it.
func.func @f() {
  // expected-error@+1 {{'anabranch.record_event' op gives event, but has 0 results}}
  "anabranch.record_event"() {stream = 0 : i64} : () -> ()
  return
}

// -----

// Tests that an op with one operand has it.
func.func @f() {
  // expected-error@+1 {{'anabranch.wait_event' op takes event, but has 0 operands}}
  "anabranch.wait_event"() {stream = 0 : i64} : () -> ()
  return
}

// -----

// Tests that a region has its body.
func.func @f() {
  // expected-error@+1 {{'anabranch.region' op has body, of one block each}}
  "anabranch.region"() ({}) {stream = 1 : i64} : () -> ()
  return
}

// -----

// Tests that a region sees nothing of the function in the bodies of its ops either.
func.func @f(%x: !torch.vtensor<[4],f32>, %b: !torch.bool) {
  // expected-error@+1 {{is isolated: 'torch.prim.If.yield' in its body uses %arg0 from outside}}
  %r = "anabranch.region"(%b) ({
  ^bb0(%c: !torch.bool):
    %0 = torch.prim.If %c -> (!torch.vtensor<[4],f32>) {
      torch.prim.If.yield %x : !torch.vtensor<[4],f32>
    } else {
      torch.prim.If.yield %x : !torch.vtensor<[4],f32>
    }
    "anabranch.yield"(%0) : (!torch.vtensor<[4],f32>) -> ()
  }) {stream = 1 : i64} : (!torch.bool) -> !torch.vtensor<[4],f32>
  return
}

// -----

// Tests that nothing follows a yield.
func.func @f() {
  "anabranch.region"() ({
    // expected-error@+1 {{'anabranch.yield' op ends its block, but ops follow it}}
    "anabranch.yield"() : () -> ()
    %0 = arith.constant 1 : i64
    "anabranch.yield"() : () -> ()
  }) {stream = 1 : i64} : () -> ()
  return
}

// -----

// Tests that a call of a kernel says where each result lies.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{'anabranch.call_kernel' op says where each result lies: 1 results, but 'layouts' is []}}
  %0 = "anabranch.call_kernel"(%x) {callee = @kernel_0, layouts = []} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Tests that a call of a PyTorch op says where each result lies.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{'anabranch.extern' op says where each result lies: 1 results, but 'layouts' is [0]}}
  %0 = "anabranch.extern"(%x) {arguments = "%0", callee = "aten.relu.default", layouts = [0]} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Tests that a view says where each result lies.
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{'anabranch.view' op says where each result lies: 0 results, but 'layouts' is ["float32[2] strides [1] on cpu"]}}
  "anabranch.view"(%x) {arguments = "%0", callee = "aten.t.default", layouts = ["float32[2] strides [1] on cpu"]} : (tensor<2xf32>) -> ()
  return
}

// -----

// Tests that a schedule does not launch on a stream that the module does not have.
module attributes {anabranch.streams = {"0" = "current"}} {
  func.func @f() {
    // expected-error@+1 {{'anabranch.launch' op uses unknown stream id 1: this module has streams 0 (current)}}
    "anabranch.launch"() {callee = @kernel_0, operandSegmentSizes = array<i32: 0, 0>, stream = 1 : i64} : () -> ()
    return
  }
}
