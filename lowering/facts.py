"""What a compiled program does, as plain data: it stands in the plan, for reports and for tests."""

from typing import Any

from torch_mlir import ir

from anabranch.dialect.ops import functions, stream_table
from anabranch.lowering.lower_kernels import KERNEL_ATTR, OPS_ATTR
from anabranch.lowering.schedule_form import ARENA_ATTR, WORK, operations, stream_of
from anabranch.lowering.verify_schedule import PAIRS_ATTR


def main_function(module: ir.Operation) -> ir.OpView:
    """The function that is no kernel."""
    (main,) = [f for f in functions(module) if KERNEL_ATTR not in f.operation.attributes]
    return main


def count(module: ir.Operation, name: str) -> int:
    """The number of ops called ``name`` in the main function, at its top level."""
    return sum(op.name == name for op in operations(main_function(module)))


def facts_of(module: ir.Operation) -> dict[str, Any]:
    """The facts of a module in schedule form.

    ``launches`` are (stream, kernel or op, the ATen ops it runs) in host order, ``waits`` (waiting stream, recorded stream).
    """
    main = main_function(module)
    ops = operations(main)
    attributes = main.operation.attributes
    arena = ir.DictAttr(attributes[ARENA_ATTR])
    launches = [_launch(op) for op in ops if op.name in WORK]
    return {
        "streams": stream_table(module) or {0: "current"},
        "kernels": sum(KERNEL_ATTR in f.operation.attributes for f in functions(module)),
        "kernel_launches": sum(op.name == "anabranch.launch" for op in ops),
        "extern_calls": sum(op.name == "anabranch.call_extern" for op in ops),
        "views": sum(op.name == "anabranch.view" for op in ops),
        "launches": launches,
        "waits": [
            (stream_of(op), stream_of(op.operands[0].owner.operation)) for op in ops if op.name == "anabranch.wait_event"
        ],
        "access_pairs": ir.IntegerAttr(attributes[PAIRS_ATTR]).value,
        "arena_bytes": {entry.name: ir.IntegerAttr(entry.attr).value for entry in arena},
    }


def launched_ops(op: ir.Operation) -> tuple[str, ...]:
    """The ATen ops that a piece of work computes, as far as it says: ``("aten.add", "aten.relu")``."""
    return tuple(_packet(ir.StringAttr(name).value) for name in op.attributes[OPS_ATTR]) if OPS_ATTR in op.attributes else ()


def _launch(op: ir.Operation) -> tuple[int, str, tuple[str, ...]]:
    callee = op.attributes["callee"]
    is_kernel = isinstance(callee, ir.FlatSymbolRefAttr)
    return stream_of(op), callee.value if is_kernel else _packet(ir.StringAttr(callee).value), launched_ops(op)


def _packet(name: str) -> str:
    """``aten.add`` for ``aten.add.Tensor``."""
    return ".".join(name.split(".")[:2])
