// RUN: anabranch-opt %s --legalize-streams --split-input-file | filecheck %s
// RUN: anabranch-opt %s --legalize-streams --legalize-streams --verify-streams --split-input-file | filecheck %s

!t = !torch.vtensor<[4],f32>

// Tests that a parameter used on a side stream is forked from stream 0, once for all its uses.
// CHECK-LABEL: func.func @parameter
// CHECK-DAG: %[[X:.*]] = "anabranch.fork_stream"(%arg0) {source = 0 : i64, target = 1 : i64}
// CHECK-DAG: %[[W:.*]] = "anabranch.fork_stream"(%arg1) {source = 0 : i64, target = 1 : i64}
// CHECK: %[[H:.*]] = torch.aten.add.Tensor %[[X]], %[[W]]
// CHECK-NEXT: %[[G:.*]] = torch.aten.add.Tensor %[[H]], %[[W]]
// CHECK-NEXT: %[[Y:.*]] = "anabranch.join_stream"(%[[G]]) {source = 1 : i64, target = 0 : i64}
// CHECK-NEXT: return %[[Y]]
func.func @parameter(%x: !t, %w: !t) -> !t {
  %int1 = torch.constant.int 1
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.add.Tensor %x1, %w, %int1 : !t, !t, !torch.int -> !t
  %g = torch.aten.add.Tensor %h, %w, %int1 : !t, !t, !torch.int -> !t
  %y = "anabranch.join_stream"(%g) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}

// Tests that an argument whose only use is floating work for a side stream is forked before that work.
// CHECK-LABEL: func.func @floating_work
// CHECK: %[[W:.*]] = "anabranch.fork_stream"(%arg1) {source = 0 : i64, target = 1 : i64}
// CHECK-NEXT: torch.aten.relu %[[W]]
func.func @floating_work(%x: !t, %w: !t) -> !t {
  %int1 = torch.constant.int 1
  %v = torch.aten.relu %w : !t -> !t
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.add.Tensor %x1, %v, %int1 : !t, !t, !torch.int -> !t
  %y = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}

// Tests that a tensor made from nothing runs on the side stream that alone uses it, and else on stream 0.
// CHECK-LABEL: func.func @made_by_ops
// CHECK: %[[OWN:.*]] = torch.aten.full
// CHECK: %[[SHARED:.*]] = torch.aten.full
// CHECK: %[[S:.*]] = "anabranch.fork_stream"(%[[SHARED]]) {source = 0 : i64, target = 1 : i64}
// CHECK-NEXT: torch.aten.add.Tensor %[[OWN]], %[[S]]
func.func @made_by_ops(%x: !t) -> (!t, !t) {
  %int1 = torch.constant.int 1
  %int4 = torch.constant.int 4
  %none = torch.constant.none
  %size = torch.prim.ListConstruct %int4 : (!torch.int) -> !torch.list<int>
  %own = torch.aten.full %size, %int1, %none, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !t
  %shared = torch.aten.full %size, %int4, %none, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !t
  %s1 = "anabranch.fork_stream"(%shared) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.add.Tensor %own, %s1, %int1 : !t, !t, !torch.int -> !t
  %y = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y, %shared : !t, !t
}

// Tests that a fork and a join that undo each other go, equal forks become one, and dead ones vanish.
// CHECK-LABEL: func.func @redundant
// CHECK-NEXT: torch.constant.int 1
// CHECK-NEXT: %[[X:.*]] = "anabranch.fork_stream"(%arg0) {source = 0 : i64, target = 1 : i64}
// CHECK-NEXT: %[[H:.*]] = torch.aten.add.Tensor %[[X]], %[[X]]
// CHECK-NEXT: %[[Y:.*]] = "anabranch.join_stream"(%[[H]])
// CHECK-NEXT: return %[[Y]], %arg0
func.func @redundant(%x: !t) -> (!t, !t) {
  %int1 = torch.constant.int 1
  %a = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %there_and_back = "anabranch.join_stream"(%a) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %b = "anabranch.fork_stream"(%there_and_back) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %dead = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 2 : i64} : (!t) -> !t
  %h = torch.aten.add.Tensor %a, %b, %int1 : !t, !t, !torch.int -> !t
  %y = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y, %there_and_back : !t, !t
}

// Tests that a value crosses from where it was made straight to where it is used, between side streams, too.
// CHECK-LABEL: func.func @straight
// CHECK-NEXT: "anabranch.fork_stream"(%arg0) {source = 0 : i64, target = 2 : i64}
// CHECK-NEXT: %[[H:.*]] = torch.aten.relu
// CHECK-NEXT: %[[H3:.*]] = "anabranch.fork_stream"(%[[H]]) {source = 2 : i64, target = 3 : i64}
// CHECK-NEXT: %[[G:.*]] = torch.aten.relu %[[H3]]
// CHECK-NEXT: "anabranch.join_stream"(%[[G]]) {source = 3 : i64, target = 0 : i64}
func.func @straight(%x: !t) -> !t {
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %x2 = "anabranch.fork_stream"(%x1) {source = 1 : i64, target = 2 : i64} : (!t) -> !t
  %h = torch.aten.relu %x2 : !t -> !t
  %h3 = "anabranch.fork_stream"(%h) {source = 2 : i64, target = 3 : i64} : (!t) -> !t
  %g = torch.aten.relu %h3 : !t -> !t
  %y = "anabranch.join_stream"(%g) {source = 3 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}

// Tests that a list of tensors is made anew on the side stream from forked tensors.
// CHECK-LABEL: func.func @list
// CHECK: %[[A:.*]] = "anabranch.fork_stream"(%arg0)
// CHECK-NEXT: %[[L:.*]] = torch.prim.ListConstruct %[[A]], %[[A]]
// CHECK: torch.aten.index.Tensor %{{.*}}, %[[L]]
func.func @list(%i: !torch.vtensor<[4],si64>, %x: !torch.vtensor<[9,9],f32>) -> (!t, !t) {
  %list = torch.prim.ListConstruct %i, %i : (!torch.vtensor<[4],si64>, !torch.vtensor<[4],si64>) -> !torch.list<optional<vtensor>>
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!torch.vtensor<[9,9],f32>) -> !torch.vtensor<[9,9],f32>
  %h = torch.aten.index.Tensor %x1, %list : !torch.vtensor<[9,9],f32>, !torch.list<optional<vtensor>> -> !t
  %r = torch.aten.index.Tensor %x, %list : !torch.vtensor<[9,9],f32>, !torch.list<optional<vtensor>> -> !t
  %y = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y, %r : !t, !t
}

// Tests that a list of tensors in which there is none may be used on two streams: each makes its own.
// CHECK-LABEL: func.func @list_of_none
// CHECK-NEXT: torch.constant.none
// CHECK-NEXT: %[[HERE:.*]] = torch.prim.ListConstruct %none
// CHECK-NEXT: %[[THERE:.*]] = torch.prim.ListConstruct %none
// CHECK-NEXT: %[[X:.*]] = "anabranch.fork_stream"
// CHECK-NEXT: torch.aten.index.Tensor %[[X]], %[[THERE]]
// CHECK-NEXT: torch.aten.index.Tensor %arg0, %[[HERE]]
func.func @list_of_none(%x: !t) -> (!t, !t) {
  %none = torch.constant.none
  %list = torch.prim.ListConstruct %none : (!torch.none) -> !torch.list<optional<vtensor>>
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %h = torch.aten.index.Tensor %x1, %list : !t, !torch.list<optional<vtensor>> -> !t
  %r = torch.aten.index.Tensor %x, %list : !t, !torch.list<optional<vtensor>> -> !t
  %y = "anabranch.join_stream"(%h) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y, %r : !t, !t
}

// Tests that a dead fork, which vanishes, does not say where a floating value is: %v8 has no user, so that %v5 has two streams.
// CHECK-LABEL: func.func @dead_fork_says_nothing
// CHECK: %[[V5:.*]] = torch.aten.full
// CHECK: %[[V5_ON_1:.*]] = "anabranch.fork_stream"(%[[V5]]) {source = 0 : i64, target = 1 : i64}
// CHECK-NEXT: torch.aten.mul.Tensor %{{.*}}, %[[V5_ON_1]]
// CHECK-NEXT: torch.aten.relu %[[V5]]
func.func @dead_fork_says_nothing(%x: !t) -> !t {
  %none = torch.constant.none
  %int4 = torch.constant.int 4
  %size = torch.prim.ListConstruct %int4 : (!torch.int) -> !torch.list<int>
  %v5 = torch.aten.full %size, %int4, %none, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !t
  %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t
  %v7 = torch.aten.mul.Tensor %x1, %v5 : !t, !t -> !t
  %v8 = torch.aten.relu %v5 : !t -> !t
  %dead = "anabranch.join_stream"(%v8) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  %y = "anabranch.join_stream"(%v7) {source = 1 : i64, target = 0 : i64} : (!t) -> !t
  return %y : !t
}
