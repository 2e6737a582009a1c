// RUN: anabranch-opt %s --form-regions --split-input-file --verify-diagnostics

!t = !torch.vtensor<[4],f32>

// Tests that a value which crosses without a fork is refused: legalize-streams would have written one.
func.func @floating_argument(%x: !t, %w: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  // expected-error@+1 {{'torch.aten.mul.Tensor' op on stream 1 uses %arg1 of stream 0 with no fork or join between them: run legalize-streams first}}
  %h = torch.aten.mul.Tensor %x1, %w : !t, !t -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %h0 : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that operands on two streams are refused here, too.
func.func @mix(%x: !t) -> !t {
  %a = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %b = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 2 : i64} : (!t) -> !t
  // expected-error@+1 {{but an op runs on one stream}}
  %h = torch.aten.mul.Tensor %a, %b : !t, !t -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %h0 : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that a list is not returned: it would keep the ops that make its tensors out of regions.
func.func @returns_list(%x: !t) -> !torch.list<vtensor> {
  %h = torch.aten.relu %x : !t -> !t
  %list = torch.prim.ListConstruct %x, %h : (!t, !t) -> !torch.list<vtensor>
  // expected-error@+1 {{'func.return' op returns the list %1, but only tensors leave regions: return each of its tensors}}
  return %list : !torch.list<vtensor>
}

// -----

// Tests that a function that is in regions already is refused: they would be put into regions again.
func.func @regions(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  // expected-error@+1 {{'anabranch.region' op holds other ops, but value form is one flat list}}
  %r = "anabranch.region"(%x) ({
  ^bb0(%a: !torch.vtensor<[4],f32>):
    %0 = torch.aten.relu %a : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
    "anabranch.yield"(%0) : (!torch.vtensor<[4],f32>) -> ()
  }) {stream = 0 : i64} : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
  return %r : !torch.vtensor<[4],f32>
}
