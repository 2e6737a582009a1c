// RUN: anabranch-opt %s --verify-streams --verify-diagnostics --split-input-file | filecheck %s --allow-empty
// RUN: sed 's/returns %0 on stream 1/returns %0 on stream 9/' %s > %t.wrong
// RUN: not anabranch-opt %t.wrong --verify-streams --verify-diagnostics --split-input-file 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: sed 's/{{retu[r]ns.*$/{{returns/' %s > %t.unreadable
// RUN: not anabranch-opt %t.unreadable --verify-streams --verify-diagnostics --split-input-file 2>&1 | filecheck %s --check-prefix=UNREADABLE

// Tests that no IR is printed, even where nothing is expected.
// CHECK-NOT: func.func
func.func @nothing_expected(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// Tests that an error that is expected makes a failing pass a success; that if it does not come the test fails, and so does the
// error that comes instead; and that a comment that only looks like an expectation is refused, as it would check nothing.
// WRONG: unexpected {{.*}}error: 'func.return' op returns %0 on stream 1
// WRONG: expected error 'returns %0 on stream 9' on line {{[0-9]+}} was not produced
// UNREADABLE: returns' expects nothing: write it as
func.func @unjoined(%x: tensor<4xf32>) -> tensor<4xf32> {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{returns %0 on stream 1}}
  return %x1 : tensor<4xf32>
}
