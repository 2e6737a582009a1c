// RUN: anabranch-opt %s --legalize-streams --split-input-file --verify-diagnostics

!t = !torch.vtensor<[4],f32>

// Tests that contradicting streams are refused, as by verify-streams.
func.func @unjoined(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  // expected-error@+1 {{'func.return' op returns %0 on stream 1 (produced there by 'anabranch.fork_stream')}}
  return %x1 : !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that a list of tensors that an op made on stream 0 does not cross.
func.func @list_crosses(%x: !torch.vtensor<[8],f32>, %z: !t) -> (!torch.vtensor<[8],f32>, !t, !t) {
  %int0 = torch.constant.int 0
  %int4 = torch.constant.int 4
  %parts = torch.aten.split.Tensor %x, %int4, %int0 : !torch.vtensor<[8],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
  %two:2 = torch.prim.ListUnpack %parts : !torch.list<vtensor> -> !t, !t
  // expected-error@+1 {{'torch.aten.cat' op on stream 1 uses the list %0 of stream 0 (produced there by 'torch.aten.split.Tensor'), but only tensors cross streams}}
  %h = torch.aten.cat %parts, %int0 : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[8],f32>
  %y = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32>
  return %y, %two#0, %two#1 : !torch.vtensor<[8],f32>, !t, !t
}

// -----

!t = !torch.vtensor<[4],f32>

// Tests that a list that is an argument, and so on stream 0, does not cross either.
func.func @argument_crosses(%parts: !torch.list<vtensor>) -> !torch.vtensor<[8],f32> {
  %int0 = torch.constant.int 0
  // expected-error@+1 {{'torch.aten.cat' op on stream 1 uses the list %arg0 of stream 0 (an argument), but only tensors cross streams}}
  %h = torch.aten.cat %parts, %int0 : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[8],f32>
  %y = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32>
  return %y : !torch.vtensor<[8],f32>
}
