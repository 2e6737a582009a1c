// RUN: anabranch-opt %s --pass-pipeline='builtin.module(func.func(canonicalize{max-iterations=2},cse),verify-streams,legalize-streams,cse)' | filecheck %s
// RUN: anabranch-opt %s --legalize-streams --form-regions --mlir-print-ir-after-all 2>&1 | filecheck %s --check-prefix=AFTER

!t = !torch.vtensor<[4],f32>

// Tests that passes of anabranch and of MLIR run in one pipeline, options and nesting included.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: "anabranch.fork_stream"
// CHECK-NEXT: torch.aten.relu
// CHECK-NEXT: "anabranch.join_stream"
// CHECK-NEXT: return

// Tests that the IR is printed after each pass.
// AFTER: // -----// IR Dump After legalize-streams //----- //
// AFTER: "anabranch.fork_stream"
// AFTER: // -----// IR Dump After form-regions //----- //
// AFTER: "anabranch.region"
func.func @main(%x: !t) -> !t {
  %unused = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.relu %x1 : !t -> !t
  %h0 = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %h0 : !t
}
