// RUN: anabranch-opt %s --raise-stream-ops --split-input-file | filecheck %s

!t = !torch.vtensor<[4],f32>
!u = !torch.vtensor<[2,3],f32>

// Tests that a call with several tensors becomes one fork, and that the list and the numbers around it go.
// CHECK-LABEL: func.func @fork
// CHECK-NEXT: %[[F:.*]]:2 = "anabranch.fork_stream"(%arg0, %arg1) {source = 0 : i64, target = 1 : i64}
// CHECK-NEXT: return %[[F]]#0, %[[F]]#1
func.func @fork(%a: !t, %b: !u) -> (!t, !u) {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %list = torch.prim.ListConstruct %a, %b : (!t, !u) -> !torch.list<vtensor>
  %out = torch.operator "torch.anabranch.fork_stream"(%list, %int0, %int1) : (!torch.list<vtensor>, !torch.int, !torch.int) -> !torch.list<vtensor>
  %results:2 = torch.prim.ListUnpack %out : !torch.list<vtensor> -> !t, !u
  return %results#0, %results#1 : !t, !u
}

// Tests that a join keeps the constants that others use, and leaves other operators alone.
// CHECK-LABEL: func.func @join
// CHECK-NEXT: %[[ONE:.*]] = torch.constant.int 1
// CHECK-NEXT: %[[J:.*]] = "anabranch.join_stream"(%arg0) {source = 1 : i64, target = 0 : i64}
// CHECK-NEXT: torch.operator "torch.mine.op"(%[[J]], %[[ONE]])
func.func @join(%a: !t) -> !t {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %list = torch.prim.ListConstruct %a : (!t) -> !torch.list<vtensor>
  %out = torch.operator "torch.anabranch.join_stream"(%list, %int1, %int0) : (!torch.list<vtensor>, !torch.int, !torch.int) -> !torch.list<vtensor>
  %result = torch.prim.ListUnpack %out : !torch.list<vtensor> -> !t
  %y = torch.operator "torch.mine.op"(%result, %int1) : (!t, !torch.int) -> !t
  return %y : !t
}

// -----

// Tests that a call whose results nobody uses goes with its list.
// CHECK-LABEL: func.func @unused
// CHECK-NOT: torch.prim
// CHECK: return %arg0
func.func @unused(%a: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %list = torch.prim.ListConstruct %a : (!torch.vtensor<[4],f32>) -> !torch.list<vtensor>
  %out = torch.operator "torch.anabranch.fork_stream"(%list, %int0, %int1) : (!torch.list<vtensor>, !torch.int, !torch.int) -> !torch.list<vtensor>
  return %a : !torch.vtensor<[4],f32>
}
