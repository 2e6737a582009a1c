// RUN: anabranch-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lower-kernels)'

// Tests that an op which torch-mlir cannot lower is named, where it stands.
func.func private @kernel_0(%x: !torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32> attributes {anabranch.kernel} {
  // expected-error@below {{failed to legalize operation 'torch.operator'}}
  // expected-note@below {{see current operation}}
  %0 = torch.operator "torch.aten.erfc"(%x) : (!torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32>
  return %0 : !torch.vtensor<[8],f32>
}
