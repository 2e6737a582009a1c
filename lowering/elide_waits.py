"""Removes the waits that order nothing new, and the events that nobody waits for.

Before:

    launch @a on 1;  %e = record_event 1;  launch @b on 1;  %f = record_event 1
    wait_event %e on 0;  wait_event %f on 0;  launch @c on 0;  wait_event %e on 0;  launch @d on 0

After:

    launch @a on 1;  launch @b on 1;  %f = record_event 1
    wait_event %f on 0;  launch @c on 0;  launch @d on 0

Requires schedule form. Guarantees that the order of all work is what it was, and that no wait can go without losing some:
one vector clock a stream knows exactly what is ordered already. Of the waits before one op the later event is looked at
first, as it may cover the others. Refuses nothing.
"""

from torch_mlir import ir

from anabranch.dialect.ops import functions
from anabranch.lowering.happens_before import Clocks
from anabranch.lowering.schedule_form import ON_STREAM, operations, stream_of


def elide_waits(module: ir.Operation | ir.Module) -> None:
    """Removes waits and events from each schedule of ``module``, in place."""
    for function in functions(module):
        clocks = Clocks()
        position = {}
        for group in _groups(operations(function)):
            for op in sorted(group, key=lambda op: -position[op.operands[0]]) if len(group) > 1 else group:
                if op.name == "anabranch.wait_event" and clocks.knows(stream_of(op), op.operands[0]):
                    op.erase()
                    continue
                clocks.advance(op)
                position.update((event, len(position)) for event in op.results)
        for op in operations(function):
            if op.name == "anabranch.record_event" and not any(True for _ in op.results[0].uses):
                op.erase()


def _groups(ops: list[ir.Operation]) -> list[list[ir.Operation]]:
    """The ops on streams in order; waits of one stream that follow each other are one group."""
    groups: list[list[ir.Operation]] = []
    for op in ops:
        if op.name not in ON_STREAM:
            continue
        last = groups[-1][-1] if groups else None
        waits = op.name == "anabranch.wait_event" and last is not None and last.name == op.name
        if waits and stream_of(last) == stream_of(op):
            groups[-1].append(op)
        else:
            groups.append([op])
    return groups
