// RUN: not anabranch-opt %s --verify-streams --split-input-file 2>&1 | filecheck %s
// RUN: not anabranch-opt %s --pass-pipeline='builtin.module(func.func(verify-streams))' 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not anabranch-opt %s --pass-pipeline='builtin.module(legalise-streams)' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not anabranch-opt %s --pass-pipeline='builtin.module(cse{colour=red})' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not anabranch-opt %s --pass-pipeline='builtin.module(verify-streams{deep=true})' 2>&1 | filecheck %s --check-prefix=NO-OPTIONS
// RUN: not anabranch-opt %s.absent 2>&1 | filecheck %s --check-prefix=ABSENT

// Tests that a pass of anabranch inside another pass is refused with the place where it belongs.
// NESTED: unknown pass 'verify-streams' inside another pass: passes of anabranch run on a whole module

// Tests that a pass that is not there is refused and the nearest name offered.
// UNKNOWN: unknown pass 'legalise-streams'; did you mean 'legalize-streams'?

// Tests that an option that a pass of MLIR does not have is refused in MLIR's words.
// OPTION: pass pipeline 'builtin.module(cse{colour=red})'
// OPTION-SAME: no such option colour

// Tests that options are refused where a pass takes none.
// NO-OPTIONS: pass 'verify-streams' takes no options

// Tests that a file that is not there is named.
// ABSENT: cannot read '{{.*}}errors.mlir.absent': No such file or directory

// Tests that a failing pass shows the line and a caret and prints the command that repeats it.
// CHECK: errors.mlir:{{[0-9]+}}:3: error: 'func.return' op returns %0 on stream 1
// CHECK-NEXT: return %x1
// CHECK-NEXT: ^
// CHECK-NEXT: anabranch-opt: pass 'verify-streams' failed; its input was written to [[FILE:.*]]. To repeat:
// CHECK-NEXT: anabranch-opt --pass-pipeline='builtin.module(verify-streams)' [[FILE]]
func.func @unjoined(%x: tensor<4xf32>) -> tensor<4xf32> {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %x1 : tensor<4xf32>
}

// -----

// Tests that the part after the one that failed is printed.
// CHECK: func.func @good
func.func @good(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
