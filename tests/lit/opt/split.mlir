// RUN: anabranch-opt %s --split-input-file | filecheck %s

// Tests that each part is read and printed as a module of its own.
// CHECK: func.func @same
func.func @same() {
  return
}

// -----

// Tests that a name of the first part may stand again in the second.
// CHECK: // -----
// CHECK: func.func @same
func.func @same() {
  return
}
