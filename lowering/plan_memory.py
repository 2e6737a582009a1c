"""Gives each arena buffer its bytes, so that buffers share bytes where no two of their accesses can meet.

Before, each buffer in bytes of its own:

    %a = alloc {offset = 0, bytes = 512};  %b = alloc {offset = 512, bytes = 512};  %c = alloc {offset = 1024, bytes = 512}
    launch @f (%x) -> (%a) on 0;  launch @g (%a) -> (%b) on 0;  launch @h (%b) -> (%c) on 0

After, with ``anabranch.arena`` of the function saying how many bytes each device's arena has:

    %a = alloc {offset = 0};  %b = alloc {offset = 512};  %c = alloc {offset = 0}

Requires schedule form. Guarantees that a buffer takes bytes of another only if every access to the other happens before
the first write of its own, by the vector clocks of the waits that are left; offsets are multiples of 512 bytes, the lowest
that are free, buffers taken in host order. Refuses nothing.
"""

from collections import defaultdict

from torch_mlir import ir

from anabranch.dialect.ops import functions
from anabranch.lowering.happens_before import Clocks
from anabranch.lowering.schedule_form import ARENA_ATTR, accesses, is_schedule, operations, space_of

# What the caching allocator aligns to, and more than any vector load needs.
ALIGNMENT = 512


def plan_memory(module: ir.Operation | ir.Module) -> None:
    """Places the arena buffers of each schedule of ``module``, in place."""
    for function in functions(module):
        if is_schedule(function):
            _plan(function)


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to ``ALIGNMENT``."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _plan(function: ir.OpView) -> None:
    ops = operations(function)
    clocks = Clocks.of(ops)
    touched: dict[ir.Value, list[ir.Operation]] = defaultdict(list)
    for op in ops:
        access = accesses(op)
        for memory in dict.fromkeys([*access.writes, *access.reads]):
            touched[memory].append(op)
    i64 = ir.IntegerType.get_signless(64, function.operation.context)
    placed: dict[str, list[tuple[int, int, list[ir.Operation]]]] = defaultdict(list)
    buffers = [x for x in touched if space_of(x) == "arena"]
    for buffer in buffers:
        alloc = buffer.owner.operation
        size, first = aligned(alloc.attributes["bytes"].value), touched[buffer][0]
        others = placed[alloc.attributes["device"].value]
        taken = [(start, end) for start, end, users in others if not all(clocks.before(user, first) for user in users)]
        offset = _lowest_gap(sorted(taken), size)
        alloc.attributes["offset"] = ir.IntegerAttr.get(i64, offset)
        others.append((offset, offset + size, touched[buffer]))
    arena = {device: ir.IntegerAttr.get(i64, max(end for _, end, _ in others)) for device, others in placed.items()}
    function.operation.attributes[ARENA_ATTR] = ir.DictAttr.get(arena, function.operation.context)


def _lowest_gap(taken: list[tuple[int, int]], size: int) -> int:
    """The lowest offset at which ``size`` bytes meet none of ``taken``, which is sorted."""
    offset = 0
    for start, end in taken:
        if start - offset >= size:
            break
        offset = max(offset, end)
    return offset
