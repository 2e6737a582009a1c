"""Lowers each kernel function from torch ops to fused linalg on builtin tensors, which kernels are emitted from.

before::

    func.func private @kernel_0(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> attributes {anabranch.kernel} {
      %0 = torch.aten.relu %x : ...
      %1 = torch.aten.exp %0 : ...
      return %1 : !torch.vtensor<[4],f32>
    }

after::

    func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {anabranch.kernel} {
      %1 = linalg.generic ... { arith.cmpf, arith.select, math.exp } -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }

Requires: kernel functions carry ``anabranch.kernel``; each op in them is one that ``kernel_ops.is_fusible`` accepts.
Guarantees: names, argument order and the attributes ``anabranch.layout`` and ``anabranch.ops`` stay; no other function is
touched; a kernel that is already on builtin tensors stays as it is.
Refuses: a kernel with an op that torch-mlir cannot lower, by torch-mlir's own error at that op.
"""

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from anabranch.lowering.exact_ops import expand

KERNEL_ATTR = "anabranch.kernel"
OPS_ATTR = "anabranch.ops"
_KEPT = ("sym_visibility", "arg_attrs", "res_attrs", KERNEL_ATTR, OPS_ATTR)

# Torch-mlir's own lowering, then MLIR's fusion of elementwise ops across what it made.
PIPELINE = (
    "builtin.module("
    "func.func(torch-decompose-complex-ops,canonicalize),"
    "torch-backend-to-linalg-on-tensors-backend-pipeline,"
    "func.func(linalg-generalize-named-ops),linalg-fuse-elementwise-ops,canonicalize,cse)"
)


def lower_kernels(module: ir.Module) -> None:
    """Lowers every kernel function of ``module`` in place; raises ``MLIRError`` where torch-mlir cannot."""
    operation = module.operation
    with operation.context, operation.location:
        for func in list(operation.regions[0].blocks[0].operations):
            if KERNEL_ATTR in func.operation.attributes and _on_torch_types(func):
                lower_function(func)


def lower_function(func: ir.OpView) -> ir.OpView:
    """Replaces one kernel function by its lowered form, at the same place of its module, and returns that."""
    # The pipeline converts whole modules, and `main` must keep its torch types: the function gets a module of its own.
    alone = ir.Module.create(func.operation.location)
    copy = func.operation.clone(ip=ir.InsertionPoint(alone.body))
    # A private function without callers is dead, so that symbol-dce may drop it.
    kept = {name: copy.attributes[name] for name in _KEPT if name in copy.attributes}
    if "sym_visibility" in copy.attributes:
        del copy.attributes["sym_visibility"]
    expand(copy)
    PassManager.parse(PIPELINE).run(alone.operation)
    lowered = alone.body.operations[0].operation.clone(ip=ir.InsertionPoint(func.operation))
    for name, attribute in kept.items():
        lowered.attributes[name] = attribute
    func.operation.erase()
    return lowered.opview


def _on_torch_types(func: ir.OpView) -> bool:
    kind = ir.FunctionType(ir.TypeAttr(func.operation.attributes["function_type"]).value)
    return any(str(t).startswith("!torch.") for t in (*kind.inputs, *kind.results))
