"""Which torch ops may go into a kernel: those that torch-mlir lowers exactly and ``emit_triton`` can emit.

``FUSIBLE`` names them with their kind; ``is_fusible`` also looks at the types and constants of one op. It looks at one
op only: that all tensors of a kernel lie on one device is for the caller to check.
"""

import math
import re

from torch_mlir import ir

from anabranch.lowering.exact_ops import constant
from anabranch.lowering.triton_expr import MAX_INTEGER_POWER

# The longest row one program reduces.
MAX_ROW = 16384

_ELEMENTWISE = """
    abs add.Scalar add.Tensor addcdiv addcmul bitwise_and.Scalar bitwise_and.Tensor bitwise_not bitwise_or.Tensor
    bitwise_xor.Tensor ceil clamp clamp.Tensor clamp_max clamp_min cos div.Scalar div.Tensor div.Tensor_mode elu
    eq.Scalar eq.Tensor erf exp exp2 expm1 floor fmax fmin fmod.Tensor ge.Scalar ge.Tensor gelu gt.Scalar gt.Tensor
    hardsigmoid hardswish hardtanh isinf isnan le.Scalar le.Tensor leaky_relu lerp.Scalar log log10 log1p log2
    logical_and logical_not logical_or logical_xor lt.Scalar lt.Tensor masked_fill.Scalar masked_fill.Tensor maximum
    minimum mish mul.Scalar mul.Tensor ne.Scalar ne.Tensor neg pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor
    reciprocal relu remainder.Scalar remainder.Tensor round rsqrt rsub.Scalar sgn sigmoid sigmoid_backward silu sin
    softplus sqrt sub.Scalar sub.Tensor tan tanh tanh_backward threshold_backward trunc where.self
"""
_KINDS = {
    "elementwise": _ELEMENTWISE,
    "cast": "_to_copy",
    # A copy into the strides of its result's layout.
    "copy": "clone",
    "constructor": "full full_like ones ones_like scalar_tensor zeros zeros_like arange arange.start arange.start_step",
    "reduction": """sum sum.dim_IntList mean mean.dim amax amin max min var.correction var_mean.correction all.dim
        any.dim""",
    "softmax": "_softmax _log_softmax",
    "layer_norm": "native_layer_norm",
}
FUSIBLE: dict[str, str] = {f"torch.aten.{name}": kind for kind, names in _KINDS.items() for name in names.split()}

_ROW_KINDS = ("reduction", "softmax", "layer_norm")
# Reductions of all dimensions, whose second operand is no list of them.
_OF_ALL = ("torch.aten.sum", "torch.aten.mean", "torch.aten.max", "torch.aten.min")
_FLOATS = ("f16", "bf16", "f32", "f64")
_DTYPES = (*_FLOATS, "si64", "si32", "si16", "si8", "ui8", "i1")
_TENSOR = re.compile(r"!torch\.vtensor<\[([\d,]*)\],(\w+)>$")


def is_fusible(op: ir.Operation) -> bool:
    """Whether one op of the torch dialect may go into a kernel."""
    op = op.operation
    kind = FUSIBLE.get(op.name)
    if kind is None:
        return False
    for value in (*op.operands, *op.results):
        if "tensor" in str(value.type):
            if not _is_kernel_tensor(value.type):
                return False
        elif not _is_known(value):
            return False
    check = _CHECKS.get(op.name) or _CHECKS_OF_KIND.get(kind)
    return check is None or check(op)


def constants(value: ir.Value) -> list | None:
    """The numbers of a constant list, or None for the constant none."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "torch.prim.ListConstruct":
        return [constant(v) for v in owner.operands]
    return None


def _shape_and_dtype(type_: ir.Type) -> tuple[list[int], str]:
    sizes, dtype = _TENSOR.match(str(type_)).groups()
    return [int(s) for s in sizes.split(",") if s], dtype


def _is_kernel_tensor(type_: ir.Type) -> bool:
    """That the shape is static and not empty, and the type one that a kernel computes."""
    if _TENSOR.match(str(type_)) is None:
        return False
    shape, dtype = _shape_and_dtype(type_)
    return 0 not in shape and dtype in _DTYPES


def _is_known(value: ir.Value) -> bool:
    """That a value which is no tensor is a constant."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    if owner.name == "torch.prim.ListConstruct":
        return all(_is_known(v) for v in owner.operands)
    return owner.name.startswith("torch.constant.")


def _is_none(value: ir.Value) -> bool:
    return str(value.type) == "!torch.none"


def row_of(op: ir.Operation) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The operand's shape split into what a row op keeps and what it reduces, without extents of 1; else None.

    The row ops of one kernel must agree on it: a kernel holds one kind of row.
    """
    op = op.operation
    if FUSIBLE[op.name] not in _ROW_KINDS:
        return None
    shape, _ = _shape_and_dtype(op.operands[0].type)
    reduced = _reduced_dims(op)
    kept = tuple(n for d, n in enumerate(shape) if d not in reduced and n != 1)
    return kept, tuple(n for d, n in enumerate(shape) if d in reduced and n != 1)


def _reduced_dims(op: ir.Operation) -> set[int]:
    """The dimensions of the first operand that a row op reduces."""
    shape, _ = _shape_and_dtype(op.operands[0].type)
    rank = len(shape)
    if op.name == "torch.aten.native_layer_norm":
        return set(range(rank - len(constants(op.operands[1])), rank))
    if op.name in _OF_ALL or rank == 0:
        return set(range(rank))
    one = constant(op.operands[1])
    dims = [one] if isinstance(one, int) else constants(op.operands[1])
    return {d % rank for d in dims} if dims else set(range(rank))


def _rows(op: ir.Operation) -> bool:
    """That the op reduces the innermost dimensions only, so that a row lies close together, and not too long a row."""
    shape, dtype = _shape_and_dtype(op.operands[0].type)
    reduced = _reduced_dims(op)
    inside = range(min(reduced, default=0), len(shape))
    trailing = all(d in reduced or shape[d] == 1 for d in inside)
    return trailing and math.prod(shape[d] for d in reduced) <= MAX_ROW and dtype != "ui8"


def _extremum(op: ir.Operation) -> bool:
    # Torch-mlir reduces one dimension after the other; a kernel reduces one set of dimensions.
    return _rows(op) and len(row_of(op)[1]) <= 1


def _on_bool(op: ir.Operation) -> bool:
    return _shape_and_dtype(op.operands[0].type)[1] == "i1" and _rows(op)


def _softmax(op: ir.Operation) -> bool:
    half_to_float = constant(op.operands[2])
    # Torch-mlir's canonicalization of one without dimensions does not end.
    shape, _ = _shape_and_dtype(op.operands[0].type)
    return not half_to_float and bool(shape) and _rows(op)


def _layer_norm(op: ir.Operation) -> bool:
    # Its mean and its reciprocal deviation are results of their own, of a type that depends on the device.
    return _rows(op) and not any(list(result.uses) for result in list(op.results)[1:])


def _copy_changes_dtype_only(op: ir.Operation) -> bool:
    """``_to_copy(x, dtype, layout, device, pin_memory, non_blocking, memory_format)``."""
    _, dtype, layout, device, pin_memory, non_blocking, memory_format = op.operands
    same = all(_is_none(v) for v in (layout, device, memory_format))
    return same and not _is_none(dtype) and not constant(pin_memory) and not constant(non_blocking)


def _division(op: ir.Operation) -> bool:
    # Torch-mlir's floor of a float quotient turns infinity into nan.
    return constant(op.operands[2]) != "floor" or _shape_and_dtype(op.results[0].type)[1] not in _FLOATS


def _power(op: ir.Operation) -> bool:
    exponent = constant(op.operands[1])
    is_float = _shape_and_dtype(op.operands[0].type)[1] in _FLOATS
    return is_float and (isinstance(exponent, float) or 1 <= abs(exponent) <= MAX_INTEGER_POWER)


def _floats(op: ir.Operation) -> bool:
    return all(_shape_and_dtype(v.type)[1] in _FLOATS for v in op.operands if "tensor" in str(v.type))


_CHECKS_OF_KIND = {"reduction": _rows, "softmax": _softmax, "layer_norm": _layer_norm}
_CHECKS = {
    "torch.aten._to_copy": _copy_changes_dtype_only,
    "torch.aten.div.Tensor_mode": _division,
    "torch.aten.pow.Tensor_Scalar": _power,
    "torch.aten.pow.Tensor_Tensor": _floats,
    "torch.aten.pow.Scalar": _floats,
    "torch.aten.reciprocal": _floats,
    "torch.aten.amax": _extremum,
    "torch.aten.amin": _extremum,
    "torch.aten.all.dim": _on_bool,
    "torch.aten.any.dim": _on_bool,
}
