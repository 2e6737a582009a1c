"""Makes each higher-order op of a graph an ordinary op, so that it can be a call on its region's stream like any other.

A higher-order op (``torch.cond``, flex attention, a functionalized custom op, a user's Triton kernel) takes functions or
other objects beside tensors, which neither MLIR nor a plan can hold. So an op is registered in the process that takes the
tensors alone and holds the rest. Its name says what it holds: a cached plan finds the same op in another process, which
has registered it before it looks for the plan.
"""

import hashlib
import operator
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

_LIBRARY = torch.library.Library("anabranch_graphs", "DEF")
_DEFINED: set[str] = set()


# Dtypes that torch-mlir has no number for, so that they cannot be arguments.
_UNKNOWN_DTYPES = (torch.complex128, torch.uint16, torch.uint64)


def wrap_higher_order_ops(gm: GraphModule) -> None:
    """Replaces each higher-order op in ``gm`` by an op of the namespace ``anabranch_graphs``, in place.

    And each op with an argument that MLIR cannot hold. Ops with effects stand alone afterwards: that they are wrapped to be
    in order, one after the other, is of no use where each stream is in order.
    """
    for node in list(gm.graph.nodes):
        if node.target is torch.ops.higher_order.with_effects:
            _unwrap_effects(gm, node)
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and (
            isinstance(node.target, torch._ops.HigherOrderOperator)
            or any(map(_is_unknown, pytree.tree_leaves((node.args, node.kwargs))))
        ):
            _wrap(gm, node)
    for node in [n for n in gm.graph.nodes if n.op == "get_attr" and not n.users]:
        gm.graph.erase_node(node)
    gm.recompile()


def _wrap(gm: GraphModule, node: Node) -> None:
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    tensors = [x for x in leaves if _is_tensor(x)]
    held = [None if _is_tensor(x) else _held(gm, x) for x in leaves]
    values = node.meta["val"]
    # The op's list has the results that are tensors, in this order.
    order = [] if isinstance(values, Tensor) else [i for i, x in enumerate(values) if isinstance(x, Tensor)]
    results = [values] if isinstance(values, Tensor) else [values[i] for i in order]
    name = _define(node.target, [_is_tensor(x) for x in leaves], held, spec, results)
    with gm.graph.inserting_before(node):
        call = gm.graph.call_function(getattr(torch.ops.anabranch_graphs, name).default, (tensors,))
        call.meta = node.meta | {"val": results}
        if isinstance(values, Tensor):
            only = gm.graph.call_function(operator.getitem, (call, 0))
            only.meta = dict(node.meta)
            node.replace_all_uses_with(only)
    for user in list(node.users):
        # Others than tensors are known now.
        taken = user.args[1]
        if taken in order:
            user.args = (call, order.index(taken))
        else:
            user.replace_all_uses_with(values[taken])
            gm.graph.erase_node(user)
    gm.graph.erase_node(node)


def _unwrap_effects(gm: GraphModule, node: Node) -> None:
    """``with_effects(token, op, ...)`` returns a token and what ``op`` returns: replaces it by ``op``."""
    token, op, *args = node.args
    _, *values = node.meta["val"]
    returns_one = len(op._schema.returns) == 1
    with gm.graph.inserting_before(node):
        call = gm.graph.call_function(op, tuple(args), node.kwargs)
    call.meta = node.meta | {"val": values[0] if returns_one else values}
    for user in list(node.users):
        taken = user.args[1]
        if taken == 0:
            user.replace_all_uses_with(token)
        elif returns_one:
            user.replace_all_uses_with(call)
        else:
            user.args = (call, taken - 1)
            continue
        gm.graph.erase_node(user)
    gm.graph.erase_node(node)


def has_effect(node: Node) -> bool:
    """Whether a node is there for what it does, and not for what it returns."""
    schema = getattr(node.target, "_schema", None)
    return node.is_impure() or (node.op == "call_function" and schema is not None and not schema.returns)


def _is_unknown(leaf: Any) -> bool:
    """Whether MLIR's torch dialect has no constant for an argument."""
    return isinstance(leaf, complex) or isinstance(leaf, torch.dtype) and leaf in _UNKNOWN_DTYPES


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, Node) and isinstance(leaf.meta.get("val"), Tensor)


def _held(gm: GraphModule, leaf: Any) -> Any:
    """What a leaf that is no tensor stands for: a function of the graph, or itself."""
    return operator.attrgetter(leaf.target)(gm) if isinstance(leaf, Node) else leaf


def _define(target, is_tensor: list[bool], held: list[Any], spec, results: list[Tensor]) -> str:
    """Registers the op that calls ``target``, unless it is known, and returns its name."""
    places = [(tuple(x.shape), tuple(x.stride()), x.dtype, x.device) for x in results]
    texts = [x.code if isinstance(x, GraphModule) else repr(x) for x in held]
    content = repr((str(target), is_tensor, texts, str(spec), places))
    name = f"{target.name().replace('::', '_').replace('.', '_')}_{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    if name in _DEFINED:
        return name

    def run(xs: list[Tensor]) -> list[Tensor]:
        rest = iter(xs)
        args, kwargs = pytree.tree_unflatten([next(rest) if t else h for t, h in zip(is_tensor, held)], spec)
        made = target(*args, **kwargs)
        # The op's schema says that its results have memory of their own; a view would see that of its operand used again.
        taken = {x.untyped_storage().data_ptr() for x in xs}
        results = [x for x in ([made] if isinstance(made, Tensor) else made) if isinstance(x, Tensor)]
        return [x.clone() if x.untyped_storage().data_ptr() in taken else x for x in results]

    def fake(xs: list[Tensor]) -> list[Tensor]:
        return [torch.empty_strided(shape, stride, dtype=dtype, device=device) for shape, stride, dtype, device in places]

    _LIBRARY.define(f"{name}(Tensor[] xs) -> Tensor[]")
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"anabranch_graphs::{name}", fake, lib=_LIBRARY)
    _DEFINED.add(name)
    return name
