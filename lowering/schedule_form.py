"""Reads schedule form: which ops run on a stream, what memory they touch, and where a value lies."""

from dataclasses import dataclass

from torch_mlir import ir

from anabranch.dialect.layout import LAYOUT_ATTR, Layout
from anabranch.lowering.memref import layout_of_memref

ARENA_ATTR = "anabranch.arena"
WORK = ("anabranch.launch", "anabranch.call_extern")
ON_STREAM = (*WORK, "anabranch.record_event", "anabranch.wait_event")


def block_of(function: ir.OpView) -> ir.Block:
    """The one block of a function."""
    return function.operation.regions[0].blocks[0]


def operations(function: ir.OpView) -> list[ir.Operation]:
    """The ops of a function in host order, the return last."""
    return [op.operation for op in block_of(function).operations]


def is_schedule(function: ir.OpView) -> bool:
    """Whether ``function`` is in schedule form: it holds work, or takes and gives only memrefs, or nothing."""
    ops = operations(function)
    values = [*block_of(function).arguments, *ops[-1].operands]
    return any(op.name in ON_STREAM for op in ops) or all(str(x.type).startswith("memref") for x in values)


def stream_of(op: ir.Operation) -> int:
    """The stream of an op in ``ON_STREAM``."""
    return op.attributes["stream"].value


def root(value: ir.Value) -> ir.Value:
    """The memory that ``value`` is in: an alloc's result or a function argument."""
    while not isinstance(value, ir.BlockArgument) and value.owner.operation.name == "anabranch.view":
        value = value.owner.operation.operands[0]
    return value


def space_of(memory: ir.Value) -> str:
    """Whose memory a root is: ``argument``, or what its alloc says."""
    return "argument" if isinstance(memory, ir.BlockArgument) else memory.owner.operation.attributes["space"].value


@dataclass(frozen=True)
class Accesses:
    """The memory that one op reads and writes, as roots."""

    reads: list[ir.Value]
    writes: list[ir.Value]


def accesses(op: ir.Operation) -> Accesses:
    """What an op in ``WORK`` touches; nothing for other ops."""
    if op.name not in WORK:
        return Accesses([], [])
    unique = lambda values: list(dict.fromkeys(root(x) for x in values))  # noqa: E731
    return Accesses(unique(op.opview.inputs), unique(op.opview.outputs))


def layout_of(value: ir.Value, function: ir.OpView) -> Layout:
    """Where ``value`` lies."""
    if isinstance(value, ir.BlockArgument):
        attributes = function.operation.attributes["arg_attrs"][value.arg_number]
        return Layout.parse(ir.StringAttr(attributes[LAYOUT_ATTR]).value)
    op = value.owner.operation
    if op.name == "anabranch.view":
        return Layout.parse(ir.StringAttr(op.attributes["layouts"][value.result_number]).value)
    return layout_of_memref(value.type, op.attributes["device"].value)


def describe(op: ir.Operation) -> str:
    """An op of ``WORK`` in words: ``launch of @kernel_0 on stream 1``."""
    callee = op.attributes["callee"]
    name = f"@{callee.value}" if isinstance(callee, ir.FlatSymbolRefAttr) else callee.value
    return f"{op.name.removeprefix('anabranch.')} of {name} on stream {stream_of(op)}"
