"""Expands the torch ops whose lowering in torch-mlir differs from PyTorch, so that kernels compute what eager does.

Each entry of ``EXPANSIONS`` names an op and says what is wrong with torch-mlir's own lowering of it.
"""

import math

from torch_mlir import ir


def expand(func: ir.Operation) -> None:
    """Replaces each op of ``EXPANSIONS`` in a function on torch types, in place."""
    for op in [o.operation for o in func.regions[0].blocks[0].operations]:
        if op.name not in EXPANSIONS:
            continue
        with ir.InsertionPoint.after(op), op.location:
            EXPANSIONS[op.name](op)


def is_float(value: ir.Value) -> bool:
    return any(str(value.type).endswith(f",{t}>") for t in ("f16", "bf16", "f32", "f64"))


def constant(value: ir.Value) -> bool | int | float | str | None:
    """What a ``torch.constant.*`` value holds; None for the constant none and for anything that is no constant."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name.startswith("torch.constant.") and "value" in owner.attributes:
        return owner.attributes["value"].value
    return None


def _make(name: str, operands: list[ir.Value], type_: ir.Type) -> ir.Value:
    return ir.Operation.create(f"torch.{name}", results=[type_], operands=operands).result


def _number(value: int | float) -> ir.Value:
    if isinstance(value, int):
        kind, attribute = "int", ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    else:
        kind, attribute = "float", ir.FloatAttr.get_f64(value)
    type_ = ir.Type.parse(f"!torch.{kind}")
    return ir.Operation.create(f"torch.constant.{kind}", results=[type_], attributes={"value": attribute}).result


def _keep_nan(op: ir.Operation) -> None:
    """Where the first operand is nan torch-mlir returns the bound: return nan, as PyTorch does."""
    x, result = op.operands[0], op.results[0]
    if not is_float(x):
        return
    is_nan = _make("aten.ne.Tensor", [x, x], ir.Type.parse(f"{str(x.type).rpartition(',')[0]},i1>"))
    kept = _make("aten.where.self", [is_nan, x, result], result.type)
    result.replace_all_uses_except(kept, kept.owner.operation)


def _gelu(op: ir.Operation) -> None:
    """The tanh form: torch-mlir's sqrt(2 / pi) is wrong in the fourth digit."""
    if constant(op.operands[1]) != "tanh":
        return
    x, type_ = op.operands[0], op.results[0].type

    def mul(a: ir.Value, b: ir.Value | float) -> ir.Value:
        if isinstance(b, float):
            return _make("aten.mul.Scalar", [a, _number(b)], type_)
        return _make("aten.mul.Tensor", [a, b], type_)

    cubic = _make("aten.add.Tensor", [x, mul(mul(mul(x, x), x), 0.044715), _number(1)], type_)
    tanh = _make("aten.tanh", [mul(cubic, math.sqrt(2 / math.pi))], type_)
    gate = _make("aten.add.Scalar", [tanh, _number(1.0), _number(1)], type_)
    op.results[0].replace_all_uses_with(mul(mul(x, 0.5), gate))
    op.erase()


def _reciprocal(op: ir.Operation) -> None:
    """Torch-mlir adds an assertion that no element is 0; PyTorch returns infinity."""
    if is_float(op.operands[0]):
        made = _make("aten.pow.Tensor_Scalar", [op.operands[0], _number(-1)], op.results[0].type)
        op.results[0].replace_all_uses_with(made)
        op.erase()


def _equal_to_itself(op: ir.Operation) -> None:
    """Torch-mlir folds x == x to true, which is false where x is nan."""
    x, y = op.operands
    if x == y and is_float(x):
        differs = _make("aten.ne.Tensor", [x, x], op.results[0].type)
        op.results[0].replace_all_uses_with(_make("aten.logical_not", [differs], op.results[0].type))
        op.erase()


EXPANSIONS = {
    "torch.aten.eq.Tensor": _equal_to_itself,
    "torch.aten.maximum": _keep_nan,
    "torch.aten.minimum": _keep_nan,
    "torch.aten.clamp": _keep_nan,
    "torch.aten.clamp_min": _keep_nan,
    "torch.aten.clamp_max": _keep_nan,
    "torch.aten.hardtanh": _keep_nan,
    "torch.aten.gelu": _gelu,
    "torch.aten.reciprocal": _reciprocal,
}
