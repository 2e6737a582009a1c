"""Turns imported calls of the torch ops ``anabranch.fork_stream`` and ``join_stream`` into the ops of the dialect.

Before, as torch-mlir's importer writes it:

    %list = torch.prim.ListConstruct %a, %b
    %out = torch.operator "torch.anabranch.fork_stream"(%list, %int0, %int1)
    %results:2 = torch.prim.ListUnpack %out

After:

    %results:2 = "anabranch.fork_stream"(%a, %b) {source = 0 : i64, target = 1 : i64}

The lists and numbers that nothing else uses are removed. Refuses a call whose list of tensors is not written out, whose
streams are no constants, or whose result is used as a list or taken for other tensors than the call was given.
"""

from torch_mlir import ir

from anabranch.dialect.membership import defining_op
from anabranch.dialect.ops import functions

_CALLS = {
    "torch.anabranch.fork_stream": "anabranch.fork_stream",
    "torch.anabranch.join_stream": "anabranch.join_stream",
}


def raise_stream_ops(module: ir.Operation | ir.Module) -> None:
    """Rewrites the calls in each function of ``module``, in place."""
    for function in functions(module):
        for op in list(function.operation.regions[0].blocks[0].operations):
            if op.operation.name == "torch.operator" and op.operation.attributes["name"].value in _CALLS:
                _raise(op.operation)


def _raise(call: ir.Operation) -> None:
    name = call.attributes["name"].value
    arguments = [defining_op(x) for x in call.operands]
    if len(arguments) != 3 or len(call.results) != 1 or not _is(arguments[0], "torch.prim.ListConstruct"):
        call.location.emit_error(
            f"'{name}' takes a list of tensors made by 'torch.prim.ListConstruct', then source and target, and gives a list"
        )
        return
    if not all(_is(x, "torch.constant.int") for x in arguments[1:]):
        call.location.emit_error(f"'{name}' takes streams that are known when compiling: write each as 'torch.constant.int'")
        return
    users = [use.owner for use in call.results[0].uses]
    if not all(_is(user, "torch.prim.ListUnpack") for user in users):
        other = next(user for user in users if not _is(user, "torch.prim.ListUnpack"))
        call.location.emit_error(
            f"'{name}' gives tensors, but '{other.operation.name}' uses them as a list: unpack it first"
        )
        return
    tensors = list(arguments[0].operation.operands)
    given = [x.type for x in tensors]
    for user in users:
        taken = [x.type for x in user.operation.results]
        if taken != given:
            call.location.emit_error(
                f"'{name}' gives what it takes, ({', '.join(map(str, given))}), but 'torch.prim.ListUnpack' takes "
                f"({', '.join(map(str, taken))}) out of its result"
            )
            return
    source, target = (x.operation.attributes["value"] for x in arguments[1:])
    boundary = ir.Operation.create(
        _CALLS[name],
        results=given,
        operands=tensors,
        attributes={"source": source, "target": target},
        loc=call.location,
        ip=ir.InsertionPoint(call),
    )
    for user in users:
        for old, new in zip(user.operation.results, boundary.results):
            old.replace_all_uses_with(new)
        user.operation.erase()
    call.erase()
    for op in dict.fromkeys(arguments):
        if not any(True for _ in op.operation.results[0].uses):
            op.operation.erase()


def _is(op: ir.OpView | None, name: str) -> bool:
    return op is not None and op.operation.name == name
