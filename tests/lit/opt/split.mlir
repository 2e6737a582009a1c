// RUN: anabranch-opt %s --split-input-file | filecheck %s

// Tests that each part is a module of its own, in which the same names may stand again.
// CHECK: func.func @same
// CHECK: // -----
// CHECK: func.func @same
func.func @same() {
  return
}

// -----

func.func @same() {
  return
}
