"""The PyTorch call that an op of the torch dialect stands for: its overload, its arguments, and what it returns.

torch-mlir's importer writes every argument of a call, in the order of the op's schema, as an operand; numbers, lists, dtypes
and devices are constants. So the call can be read back from the op, printed as Python, and evaluated on fake tensors.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch_mlir import ir
from torch_mlir.extras import fx_importer

from anabranch.dialect.errors import AnabranchError
from anabranch.dialect.membership import has_stream
from anabranch.dialect.torch_ops import tensor_results

_ENUMS = {
    "ScalarType": {number: dtype for dtype, number in fx_importer.TORCH_DTYPE_TO_INT.items()},
    "MemoryFormat": {number: format_ for format_, number in fx_importer.TORCH_MEMORY_FORMAT_TO_INT.items()},
    "Layout": {number: layout for layout, number in fx_importer.TORCH_LAYOUT_TO_INT.items()},
}
# What the importer writes where a constant is of another type than the op's schema wants.
_CONVERSIONS = {
    "torch.aten.Int.bool": int,
    "torch.aten.Int.float": int,
    "torch.aten.Int.Scalar": int,
    "torch.aten.Float.int": float,
    "torch.aten.Float.Scalar": float,
    "torch.aten.Bool.int": bool,
    "torch.aten.Bool.float": bool,
}


class UnknownOp(AnabranchError):
    """The module calls an op that PyTorch does not have here."""

    message = "'{name}' is no op that PyTorch knows: import the library that defines it before compiling"


class UnknownArgument(AnabranchError):
    """An argument of an op is computed by another op, and is no tensor."""

    message = "an argument of type {type} is given by {made_by}: what is no tensor has to be a constant"


@dataclass(frozen=True)
class Operand:
    """Stands for tensor operand ``index`` of a call; prints as ``%index``."""

    index: int

    def __repr__(self):
        return f"%{self.index}"


@dataclass(frozen=True)
class AtenCall:
    """A call of ``op``; ``operands`` are the tensors among its arguments, in ``args`` and ``kwargs`` as ``Operand``."""

    op: OpOverload
    args: tuple
    kwargs: dict[str, Any]
    operands: list[ir.Value]

    @property
    def callee(self) -> str:
        """The op's name, such as ``aten.add.Tensor``."""
        return str(self.op)

    @property
    def is_view(self) -> bool:
        """Whether the results share the first operand's memory and nothing is written."""
        return bool(self.op._schema.returns) and all(
            r.alias_info is not None and not r.alias_info.is_write for r in self.op._schema.returns
        )

    @property
    def mutates(self) -> bool:
        """Whether the op writes one of its arguments."""
        return any(a.alias_info is not None and a.alias_info.is_write for a in self.op._schema.arguments)

    @property
    def arguments(self) -> str:
        """The argument list as Python text."""
        return ", ".join([_text(a) for a in self.args] + [f"{k}={_text(v)}" for k, v in self.kwargs.items()])

    def evaluate(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors that the call returns for ``tensors``; with fake tensors nothing is computed."""
        put = lambda x: _map(x, lambda operand: tensors[operand.index])  # noqa: E731
        results = tensor_results(self.op, self.op(*put(self.args), **{k: put(v) for k, v in self.kwargs.items()}))
        # A result that the op leaves undefined has nothing in it.
        return [torch.empty(0) if x is None else x for x in results]


def aten_call(op: ir.OpView | ir.Operation) -> AtenCall:
    """The call that ``op`` stands for. Raises ``UnknownOp`` and ``UnknownArgument``."""
    op = op.operation
    name = ir.StringAttr(op.attributes["name"]).value if op.name == "torch.operator" else op.name
    target = overload(name)
    operands: list[ir.Value] = []
    args, kwargs = [], {}
    # Defaults at the end of the positional arguments are left out, as a person would.
    droppable = []
    for argument, value in zip(target._schema.arguments, op.operands, strict=True):
        decoded = _decode(value, str(argument.real_type), operands)
        default = argument.default_value
        is_default = argument.has_default_value() and type(decoded) is type(default) and decoded == default
        if argument.kwarg_only:
            if not is_default:
                kwargs[argument.name] = decoded
        else:
            args.append(decoded)
            droppable.append(is_default)
    while droppable and droppable[-1]:
        args.pop()
        droppable.pop()
    if target is torch.ops.aten._unsafe_view.default:
        # Its schema hides that the result shares memory with the operand.
        target = torch.ops.aten.view.default
    return AtenCall(target, tuple(args), kwargs, operands)


def out_overload(op: OpOverload, device: str) -> OpOverload | None:
    """The overload of ``op`` that writes into given tensors with a kernel of its own, if there is one.

    Other out overloads compute the result elsewhere and copy it.
    """
    own = [(a.name, str(a.real_type)) for a in op._schema.arguments]
    for name in op.overloadpacket.overloads():
        candidate = getattr(op.overloadpacket, name)
        arguments = candidate._schema.arguments
        outs = [a for a in arguments if a.is_out]
        if (
            outs
            and len(outs) == len(op._schema.returns)
            and all(str(a.real_type) == "Tensor" for a in outs)
            and [(a.name, str(a.real_type)) for a in arguments if not a.is_out] == own
        ):
            key = torch.device(device).type.upper()
            return candidate if torch._C._dispatch_has_kernel_for_dispatch_key(candidate.name(), key) else None
    return None


def overload(name: str) -> OpOverload:
    """The op called ``name``, such as ``aten.mm.default`` or ``torch.aten.mm``. Raises ``UnknownOp``."""
    namespace, packet, *rest = name.removeprefix("torch.").split(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), rest[0] if rest else "default")
    except AttributeError:
        raise UnknownOp(name=name) from None


def _decode(value: ir.Value, type_: str, operands: list[ir.Value]) -> Any:
    """The Python value of an operand; a tensor is added to ``operands``."""
    made_by = None if isinstance(value, ir.BlockArgument) else value.owner.operation
    if made_by is not None and made_by.name == "torch.prim.ListConstruct":
        element = type_.removeprefix("Optional[").removeprefix("List[").rstrip("]")
        return [_decode(x, element, operands) for x in made_by.operands]
    if has_stream(value):
        operands.append(value)
        return Operand(len(operands) - 1)
    if made_by is not None and made_by.name in _CONVERSIONS:
        return _CONVERSIONS[made_by.name](_decode(made_by.operands[0], type_, operands))
    if made_by is None or not made_by.name.startswith("torch.constant."):
        raise UnknownArgument(type=type_, made_by="the caller" if made_by is None else f"'{made_by.name}'")
    if "value" not in made_by.attributes:
        return None
    constant = made_by.attributes["value"].value
    if made_by.name == "torch.constant.device":
        return torch.device(constant)
    for enum, members in _ENUMS.items():
        if enum in type_:
            return members[constant]
    return constant


def _map(x: Any, function) -> Any:
    if isinstance(x, Operand):
        return function(x)
    if isinstance(x, (list, tuple)):
        return type(x)(_map(y, function) for y in x)
    return x


def _text(x: Any) -> str:
    if isinstance(x, (list, tuple)):
        return "[" + ", ".join(_text(y) for y in x) + "]"
    if isinstance(x, torch.device):
        return f"torch.device('{x}')"
    if isinstance(x, float) and not math.isfinite(x):
        return f"float('{x}')"
    return repr(x)
