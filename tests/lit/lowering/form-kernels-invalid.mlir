// RUN: anabranch-opt %s --form-kernels --split-input-file --verify-diagnostics

!t = !torch.vtensor<[4],f32>

// Tests that an argument has to say where it lies.
// expected-error@+1 {{argument 0 of 'func.func' does not say where it lies: give it an attribute 'anabranch.layout'}}
func.func @no_layout(%x: !t) -> !t {
  return %x : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that an op which writes its argument is refused: streams order values, not writes.
func.func @in_place(%x: !t {anabranch.layout = "float32[4] strides [1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    // expected-error@+1 {{'torch.operator' op writes its arguments: functionalize the program first}}
    %1 = torch.operator "torch.aten.relu_"(%a) : (!t) -> !t
    "anabranch.yield"(%1) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %0 : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that an op which its operands do not fit is refused with PyTorch's reason.
func.func @shapes(%x: !t {anabranch.layout = "float32[4] strides [1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    // expected-error@+1 {{'torch.aten.mm' op does not run on its operands: }}
    %1 = torch.aten.mm %a, %a : !t, !t -> !t
    "anabranch.yield"(%1) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %0 : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that an op which PyTorch does not know is refused.
func.func @unknown(%x: !t {anabranch.layout = "float32[4] strides [1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    // expected-error@+1 {{'torch.mine.op' is no op that PyTorch knows: import the library that defines it before compiling}}
    %1 = torch.operator "torch.mine.op"(%a) : (!t) -> !t
    "anabranch.yield"(%1) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %0 : !t
}

// -----
!t = !torch.vtensor<[4],f32>

// Tests that an argument which is no tensor has to be a constant.
func.func @computed(%x: !t {anabranch.layout = "float32[4] strides [1] on cpu"}) -> !t {
  %0 = "anabranch.region"(%x) ({
  ^bb0(%a: !t):
    %int0 = torch.constant.int 0
    %n = torch.aten.add.int %int0, %int0 : !torch.int, !torch.int -> !torch.int
    // expected-error@+1 {{an argument of type number is given by 'torch.aten.add.int': what is no tensor has to be a constant}}
    %1 = torch.aten.fill.Scalar %a, %n : !t, !torch.int -> !t
    "anabranch.yield"(%1) : (!t) -> ()
  }) {stream = 0 : i64} : (!t) -> !t
  return %0 : !t
}
