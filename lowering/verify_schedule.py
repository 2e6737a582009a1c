"""Proves that a schedule is free of races: every two conflicting accesses are ordered by its streams and waits.

Two accesses conflict if both touch the same memory and one of them writes. Memory is shared by views, and by arena buffers
whose bytes overlap. The caller takes part: at entry it writes the arguments and whatever lies in the arena and in the
results' memory, at the return it reads and reuses all of them, both on stream 0; memory that an op of a side stream
allocated goes back to that stream at the end.

    launch @a () -> (%b) on 1
    launch @c (%b) -> (%d) on 0     // error: launch of @c on stream 0 reads %b ... but does not wait for launch of @a ...

Requires schedule form with memory placed. Changes nothing but ``anabranch.access_pairs`` of the function, the number of
conflicting pairs it has proved ordered. The order is computed from the text alone, as sets of what comes before an
op, and not by the vector clocks that the passes which place waits and memory share. Refuses a schedule with a race, naming
both accesses, an event that nobody recorded, and memory that is read but never written.
"""

from collections import defaultdict
from dataclasses import dataclass

from torch_mlir import ir

from anabranch.dialect.ops import functions
from anabranch.lowering.schedule_form import WORK, accesses, describe, is_schedule, operations, root, space_of, stream_of

PAIRS_ATTR = "anabranch.access_pairs"


def verify_schedule(module: ir.Operation | ir.Module) -> None:
    """Emits an error for each race in the schedules of ``module``."""
    for function in functions(module):
        if is_schedule(function):
            _Proof(function).run()


@dataclass(frozen=True)
class _Access:
    """Point ``time`` of the schedule touches ``memory``; ``text`` says which op that is."""

    time: int
    memory: ir.Value
    writes: bool
    text: str
    op: ir.Operation


class _Proof:
    """Collects the accesses of one function with what comes before each, then looks at every conflicting pair."""

    def __init__(self, function: ir.OpView):
        self._function = function.operation
        self._ops = operations(function)
        self._memory = [*function.operation.regions[0].blocks[0].arguments]
        self._memory += [op.results[0] for op in self._ops if op.name == "anabranch.alloc"]
        self._accesses: dict[ir.Value, list[_Access]] = defaultdict(list)
        # For each point of the schedule the set of points before it, as bits; and what each stream has behind it.
        self._before: list[int] = []
        self._behind: dict[int, int] = defaultdict(int)

    def run(self) -> None:
        self._point(0, None, "the call's entry", [], self._memory)
        events: dict[ir.Value, int] = {}
        for op in self._ops:
            if op.name == "anabranch.record_event":
                events[op.results[0]] = self._behind[stream_of(op)]
            elif op.name == "anabranch.wait_event":
                if op.operands[0] not in events:
                    op.location.emit_error("waits for an event before it is recorded: it would never start")
                    return
                self._behind[stream_of(op)] |= events[op.operands[0]]
            elif op.name in WORK:
                access = accesses(op)
                self._point(stream_of(op), op, describe(op), access.reads, access.writes)
        end = self._ops[-1]
        kept = {root(x) for x in end.operands}
        foreign = [x for x in self._memory if space_of(x) == "foreign" and x not in kept]
        home = {x: next((stream_of(a.op) for a in self._accesses[x] if a.writes and a.op.name in WORK), 0) for x in foreign}
        self._point(
            0, end, "the return to stream 0", list(kept), [x for x in self._memory if x not in home and x not in kept]
        )
        for memory, stream in home.items():
            self._point(stream, end, f"its return to the memory of stream {stream}", [], [memory])
        if self._is_written():
            pairs = sum(self._check(a, b) for a, b in self._overlapping())
            i64 = ir.IntegerType.get_signless(64, self._function.context)
            self._function.attributes[PAIRS_ATTR] = ir.IntegerAttr.get(i64, pairs)

    def _point(self, stream: int, op: ir.Operation | None, text: str, reads: list[ir.Value], writes: list[ir.Value]) -> None:
        time = len(self._before)
        self._before.append(self._behind[stream])
        self._behind[stream] |= 1 << time
        for memory, is_write in [*((x, False) for x in reads), *((x, True) for x in writes)]:
            self._accesses[memory].append(_Access(time, memory, is_write, text, op or self._function))

    def _is_written(self) -> bool:
        for memory in self._memory:
            written = isinstance(memory, ir.BlockArgument)
            for access in self._accesses[memory]:
                written |= access.writes and access.op.name in WORK
                if not written and access.time > 0 and not access.writes:
                    access.op.location.emit_error(f"{access.text} reads {memory.get_name()}, which nothing has written")
                    return False
        return True

    def _overlapping(self) -> list[tuple[ir.Value, ir.Value]]:
        """Each memory with itself, and each two arena buffers of a device that share bytes."""
        pairs = [(x, x) for x in self._memory]
        by_device: dict[str, list[tuple[int, int, ir.Value]]] = defaultdict(list)
        for memory in self._memory:
            if space_of(memory) == "arena":
                attributes = memory.owner.operation.attributes
                start, size = attributes["offset"].value, attributes["bytes"].value
                by_device[attributes["device"].value].append((start, start + size, memory))
        for buffers in by_device.values():
            buffers.sort(key=lambda buffer: buffer[:2])
            for i, (_, end, a) in enumerate(buffers):
                for start, _, b in buffers[i + 1 :]:
                    if start >= end:
                        break
                    pairs.append((a, b))
        return pairs

    def _check(self, a: ir.Value, b: ir.Value) -> int:
        """The number of conflicting pairs of accesses to ``a`` and ``b``; emits an error for each that is not ordered."""
        count = 0
        for x in self._accesses[a]:
            for y in self._accesses[b]:
                first, second = sorted((x, y), key=lambda access: access.time)
                if not (x.writes or y.writes) or (a == b and x.time >= y.time):
                    continue
                if first.time == second.time and first.op.name not in WORK:
                    continue
                # An op that touches two buffers with the same bytes comes before itself no more than another op does.
                count += 1
                if not self._before[second.time] >> first.time & 1:
                    second.op.location.emit_error(_explain(first, second))
        return count


def _explain(first: _Access, second: _Access) -> str:
    verbs = {True: "writes", False: "reads"}
    where = second.memory.get_name()
    if first.memory != second.memory:
        where += f", which has bytes of {first.memory.get_name()},"
    return (
        f"race: {second.text} {verbs[second.writes]} {where} but does not wait for {first.text}, "
        f"which {verbs[first.writes]} {'it' if first.memory == second.memory else first.memory.get_name()}"
    )
