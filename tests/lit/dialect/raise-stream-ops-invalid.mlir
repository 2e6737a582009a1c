// RUN: anabranch-opt %s --raise-stream-ops --split-input-file --verify-diagnostics

// Tests that a list of tensors that is not written out is refused.
func.func @f(%list: !torch.list<vtensor>) -> !torch.list<vtensor> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  // expected-error@+1 {{'torch.anabranch.fork_stream' takes a list of tensors made by 'torch.prim.ListConstruct'}}
  %out = torch.operator "torch.anabranch.fork_stream"(%list, %int0, %int1) : (!torch.list<vtensor>, !torch.int, !torch.int) -> !torch.list<vtensor>
  return %out : !torch.list<vtensor>
}

// -----

// Tests that a stream that is computed is refused.
func.func @f(%a: !torch.vtensor<[4],f32>, %s: !torch.int) {
  %int0 = torch.constant.int 0
  %list = torch.prim.ListConstruct %a : (!torch.vtensor<[4],f32>) -> !torch.list<vtensor>
  // expected-error@+1 {{'torch.anabranch.fork_stream' takes streams that are known when compiling}}
  %out = torch.operator "torch.anabranch.fork_stream"(%list, %int0, %s) : (!torch.list<vtensor>, !torch.int, !torch.int) -> !torch.list<vtensor>
  return
}

// -----

// Tests that a result that is used as a list is refused.
func.func @f(%a: !torch.vtensor<[4],f32>) -> !torch.list<vtensor> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %list = torch.prim.ListConstruct %a : (!torch.vtensor<[4],f32>) -> !torch.list<vtensor>
  // expected-error@+1 {{'torch.anabranch.fork_stream' gives tensors, but 'func.return' uses them as a list: unpack it first}}
  %out = torch.operator "torch.anabranch.fork_stream"(%list, %int0, %int1) : (!torch.list<vtensor>, !torch.int, !torch.int) -> !torch.list<vtensor>
  return %out : !torch.list<vtensor>
}

// -----

// Tests that a result that is unpacked to more tensors than the call was given is refused.
func.func @f(%a: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %list = torch.prim.ListConstruct %a : (!torch.vtensor<[4],f32>) -> !torch.list<vtensor>
  // expected-error@+1 {{gives what it takes, (!torch.vtensor<[4],f32>), but 'torch.prim.ListUnpack' takes (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) out of its result}}
  %out = torch.operator "torch.anabranch.join_stream"(%list, %int1, %int0) : (!torch.list<vtensor>, !torch.int, !torch.int) -> !torch.list<vtensor>
  %two:2 = torch.prim.ListUnpack %out : !torch.list<vtensor> -> !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>
  return %two#1 : !torch.vtensor<[4],f32>
}

// -----

// Tests that a call that gives nothing is refused.
func.func @f(%a: !torch.vtensor<[4],f32>) {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %list = torch.prim.ListConstruct %a : (!torch.vtensor<[4],f32>) -> !torch.list<vtensor>
  // expected-error@+1 {{then source and target, and gives a list}}
  torch.operator "torch.anabranch.fork_stream"(%list, %int0, %int1) : (!torch.list<vtensor>, !torch.int, !torch.int) -> ()
  return
}
