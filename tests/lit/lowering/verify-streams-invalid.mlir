// RUN: anabranch-opt %s --verify-streams --split-input-file --verify-diagnostics

!t = !torch.vtensor<[4],f32>

// Tests that an op that mixes a side stream with stream 0 is refused: both values, their streams and the missing join.
func.func @mixed(%x: !t) -> !t {
  %int1 = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.tanh %x1 : !t -> !t
  %b = torch.aten.relu %h : !t -> !t
  %b0 = "anabranch.join_stream"(%b) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %r = torch.aten.exp %b0 : !t -> !t
  // expected-error@+1 {{'torch.aten.add.Tensor' op uses %1 on stream 1 (produced there by 'torch.aten.tanh') and %4 on stream 0 (produced there by 'torch.aten.exp'), but an op runs on one stream: write "anabranch.join_stream"(%1) {source = 1 : i64, target = 0 : i64} and use its result}}
  %y = torch.aten.add.Tensor %h, %r, %int1 : !t, !t, !torch.int -> !t
  %y0 = "anabranch.join_stream"(%y) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y0 : !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that the value on the side stream is the one to join where it comes second, too.
func.func @mixed_second(%x: !t) -> !t {
  %int1 = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  // expected-error@+1 {{write "anabranch.join_stream"(%1) {source = 1 : i64, target = 0 : i64} and use its result}}
  %y = torch.aten.add.Tensor %h0, %h, %int1 : !t, !t, !torch.int -> !t
  return %y : !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that an op that mixes two side streams is refused with the fork between them.
func.func @mixed_sides(%x: !t) -> !t {
  %int1 = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %x2 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 2 : i64} : (!t) -> !t
  // expected-error@+1 {{write "anabranch.fork_stream"(%1) {source = 2 : i64, target = 1 : i64} and use its result}}
  %y = torch.aten.add.Tensor %x1, %x2, %int1 : !t, !t, !torch.int -> !t
  %y0 = "anabranch.join_stream"(%y) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y0 : !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that streams mixed inside a list are refused at the list.
func.func @mixed_list(%x: !t) -> !torch.list<vtensor> {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %x2 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 2 : i64} : (!t) -> !t
  // expected-error@+1 {{'torch.prim.ListConstruct' op uses %0 on stream 1}}
  %list = torch.prim.ListConstruct %x1, %x2 : (!t, !t) -> !torch.list<vtensor>
  // expected-error@+1 {{'func.return' op returns %2 on stream 1}}
  return %list : !torch.list<vtensor>
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that a fork that starts from another stream than its operand's is refused.
func.func @fork_from_elsewhere(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  // expected-error@+1 {{'anabranch.fork_stream' op takes %1 from stream 0, but %1 is on stream 1 (produced there by 'torch.aten.relu'): write source = 1 : i64, or bring it there first with "anabranch.join_stream"(%1) {source = 1 : i64, target = 0 : i64}}}
  %h2 = "anabranch.fork_stream"(%h) {source = 0 : i64, target = 2 : i64} : (!t) -> !t
  %y = "anabranch.join_stream"(%h2) {source = 2 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that a join that starts from another stream than its operand's is refused.
func.func @join_from_elsewhere(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  // expected-error@+1 {{'anabranch.join_stream' op takes %0 from stream 2, but %0 is on stream 1 (produced there by 'anabranch.fork_stream')}}
  %y = "anabranch.join_stream"(%x1) {source = 2 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that a result that is not joined is refused with the join that is missing.
func.func @unjoined(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  // expected-error@+1 {{'func.return' op returns %1 on stream 1 (produced there by 'torch.aten.relu'), but results are on stream 0: write "anabranch.join_stream"(%1) {source = 1 : i64, target = 0 : i64} and return its result}}
  return %h : !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that a stream that the module does not have is refused.
module attributes {anabranch.streams = {"0" = "current", "1" = "pool"}} {
  func.func @unknown_stream(%x: !t) -> !t {
    // expected-error@+1 {{uses unknown stream id 2: this module has streams 0 (current), 1 (pool); add it to 'anabranch.streams'}}
    %x2 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 2 : i64} : (!t) -> !t
    return %x : !t
  }
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that an op that holds other ops is refused: their uses of %x1 would be passed over.
func.func @nested(%x: !t, %b: !torch.bool) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  // expected-error@+1 {{'torch.prim.If' op holds other ops, but value form is one flat list}}
  %y = torch.prim.If %b -> (!t) {
    torch.prim.If.yield %x1 : !t
  } else {
    torch.prim.If.yield %x : !t
  }
  return %y : !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that several blocks are refused: all but the first would be passed over.
// expected-error@+1 {{'func.func' op has 2 blocks, but value form has one}}
func.func @blocks(%x: !t) -> !t {
  cf.br ^bb1
^bb1:
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  return %x1 : !t
}
