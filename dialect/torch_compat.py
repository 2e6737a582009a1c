"""The private parts of PyTorch that the project uses, in one place; for torch 2.11 and later.

What differs between versions is said at each function.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo import graph_bytecode_inputs
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.source import CurrentStreamSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

# Dynamo gives streams and events numbers. From torch 2.13 on this one is always the current stream's.
_CURRENT_STREAM_INDEX: int | None = getattr(graph_bytecode_inputs, "CURRENT_STREAM_INDEX", None)


def dynamo_object(index: int) -> Any | None:
    """The stream or event that Dynamo's graph calls ``index``, while it is compiled or called; None if it is gone."""
    try:
        # A dictionary, from torch 2.15 on a list.
        return graph_bytecode_inputs.index_to_external_object_weakref[index]()
    except (KeyError, IndexError):
        return None


def is_current_stream(index: int) -> bool:
    """Whether ``index`` means the stream that is current at each call.

    A stream object that happens to be current when compiling need not be so at the next call: it has a number of its own.
    """
    if _CURRENT_STREAM_INDEX is not None:
        return index == _CURRENT_STREAM_INDEX
    # Before torch 2.13, how the object is fetched for a call tells: ``lambda codegen: codegen(source)``.
    fetch = graph_bytecode_inputs.index_to_bytecode_constructor.get(index)
    return fetch is not None and isinstance(inspect.getclosurevars(fetch).nonlocals.get("source"), CurrentStreamSource)


def is_object_lookup(node: torch.fx.Node) -> bool:
    """Whether ``node`` of Dynamo's graph fetches a stream or event by its number, its one argument."""
    return node.target is graph_bytecode_inputs.get_external_object_by_index


def op_name(node: torch.fx.Node) -> str:
    """``namespace::name`` of the torch op that ``node`` calls, overload or not; empty for anything else."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.name
    return node.target._qualified_op_name if isinstance(node.target, torch._ops.OpOverloadPacket) else ""


def inference_backend(compiler: Callable[[torch.fx.GraphModule, Sequence], Callable]) -> Callable:
    """A Dynamo backend that gives ``compiler`` the functional graph of ATen ops, without decompositions, for inference.

    AOTAutograd writes mutated inputs back after the call, on the caller's current stream. What ``compiler`` returns gets
    inputs that are in memory as they are: conjugates and negations that PyTorch put off are computed first.
    """

    def compile_resolved(gm: torch.fx.GraphModule, inputs: Sequence) -> Callable:
        lazy = _resolve_placeholders(gm)
        call = compiler(gm, inputs)
        return (lambda *args: call(*(_resolved(x) if i in lazy else x for i, x in enumerate(args)))) if lazy else call

    return aot_autograd(fw_compiler=compile_resolved, inference_compiler=compile_resolved)


def _resolved(x: torch.Tensor) -> torch.Tensor:
    return x.resolve_conj().resolve_neg()


def _resolve_placeholders(gm: torch.fx.GraphModule) -> set[int]:
    """Says of each placeholder what it is once resolved, and which have to be. Dynamo guards on it."""
    lazy = set()
    for i, node in enumerate(node for node in gm.graph.nodes if node.op == "placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg()):
            node.meta["val"] = _resolved(value)
            lazy.add(i)
    return lazy


def has_symbols(gm: torch.fx.GraphModule) -> bool:
    """Whether the graph takes sizes that are known only when it is called."""
    values = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    sizes = [size for value in values if isinstance(value, torch.Tensor) for size in (*value.shape, *value.stride())]
    return any(isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool) for x in [*values, *sizes])


def specialize(gm: torch.fx.GraphModule, args: Sequence[Any]) -> torch.fx.GraphModule:
    """The same graph for the sizes of ``args``; its placeholders are the same, numbers among them unused."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(a, static_shapes=True) if isinstance(a, torch.Tensor) else a for a in args]
    with mode, torch.fx.traceback.preserve_node_meta():
        return make_fx(lambda *xs: torch.fx.Interpreter(gm).run(*xs))(*fakes)
