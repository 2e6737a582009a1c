"""The torch ops ``anabranch::fork_stream`` and ``anabranch::join_stream``, each the other's adjoint.

Both take tensors and give the same values, usable on stream ``target`` after every producer on stream ``source``. Ids are
local to a program; 0 is the caller's current stream. In eager all runs on the current stream, and the results are copies,
so that writing to a result in place changes no operand, in eager as compiled.
"""

from typing import NoReturn

import torch
from torch import Tensor

from anabranch.dialect.errors import AnabranchError, NotATensor, SameStream, UnknownStream

_LIBRARY = torch.library.Library("anabranch", "DEF")
for _name in ("fork_stream", "join_stream"):
    _LIBRARY.define(f"{_name}(Tensor[] xs, int source, int target) -> Tensor[]")

FORK = torch.ops.anabranch.fork_stream.default
JOIN = torch.ops.anabranch.join_stream.default


def fork_stream(*tensors: Tensor, target: int = 1, source: int = 0) -> Tensor | tuple[Tensor, ...]:
    """The same values on stream ``target``, after what made them on ``source``.

    Tensors of any shape, dtype and device; one in, one out; several in, a tuple out. Raises ``NotATensor``,
    ``UnknownStream`` where an id is no non-negative int, ``SameStream``.
    """
    return _cross(FORK, "fork_stream", tensors, source, target)


def join_stream(*tensors: Tensor, source: int = 1, target: int = 0) -> Tensor | tuple[Tensor, ...]:
    """The same values back on stream ``target``, after what made them on ``source``; otherwise as ``fork_stream``."""
    return _cross(JOIN, "join_stream", tensors, source, target)


def check_stream_id(call: str, name: str, value: object) -> None:
    """Raises ``UnknownStream`` unless ``value`` can be a stream's id."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(UnknownStream, call=call, name=name, value=value)


def _refuse(error: type[AnabranchError], **fields: object) -> NoReturn:
    if torch.compiler.is_compiling():
        # Dynamo shows this message where it may not break the graph, and none of the error's own.
        torch._dynamo.graph_break(msg=error.message.format(**fields))
    _raise(error, fields)


def _raise(error: type[AnabranchError], fields: dict[str, object]) -> NoReturn:
    # Torch 2.11's Dynamo fails on a raise in the very function that it resumes after a break.
    raise error(**fields)


def _cross(op, name: str, tensors: tuple, source: int, target: int) -> Tensor | tuple[Tensor, ...]:
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            _refuse(NotATensor, call=name, position=i, kind=type(x).__name__)
    if not tensors:
        _refuse(NotATensor, call=name, position=0, kind="nothing")
    check_stream_id(name, "source", source)
    check_stream_id(name, "target", target)
    if source == target:
        _refuse(SameStream, call=name, stream=source)
    results = op(list(tensors), source, target)
    return results[0] if len(results) == 1 else tuple(results)


def _eager(xs: list[Tensor], source: int, target: int) -> list[Tensor]:
    return [x.clone() for x in xs]


def _fake(xs: list[Tensor], source: int, target: int) -> list[Tensor]:
    return [torch.empty_like(x) for x in xs]


def _keep_streams(ctx, inputs, output) -> None:
    _, ctx.source, ctx.target = inputs
    ctx.set_materialize_grads(False)


def _adjoint(op):
    def backward(ctx, grads):
        # A result that nothing used has no gradient, and none crosses for it.
        there = [i for i, g in enumerate(grads) if g is not None]
        back = op([grads[i] for i in there], ctx.target, ctx.source) if there else []
        crossed = dict(zip(there, back))
        return [crossed.get(i) for i in range(len(grads))], None, None

    return backward


for _op, _other in ((FORK, JOIN), (JOIN, FORK)):
    _LIBRARY.impl(_op, _eager, "CompositeExplicitAutograd")
    torch.library.register_fake(_op.name(), _fake, lib=_LIBRARY)
    torch.library.register_autograd(_op.name(), _adjoint(_other), setup_context=_keep_streams, lib=_LIBRARY)


def tensor_results(op: torch._ops.OpOverload, made: object) -> list[Tensor | None]:
    """The tensors among what a call of ``op`` returned, by their places in its schema; None where one is undefined."""
    returns = op._schema.returns
    if len(returns) == 1:
        return list(made) if isinstance(made, list | tuple) else [made] if str(returns[0].type) == "Tensor" else []
    return [x for x, r in zip(made or (), returns) if str(r.type) == "Tensor"]
