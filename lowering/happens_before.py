"""Happens-before of a schedule, by one vector clock a stream (Mattern 1989; Fidge 1988).

The clock of a stream says how much of each stream's work is known to be done before its next op. An event carries the
clock of the stream that recorded it, and a wait merges it.
"""

from torch_mlir import ir

from anabranch.lowering.schedule_form import ON_STREAM, WORK, stream_of


class Clocks:
    """Walks a schedule in host order; ``before`` asks about ops that have been passed."""

    def __init__(self):
        self._now: dict[int, dict[int, int]] = {}
        self._events: dict[ir.Value, dict[int, int]] = {}
        self._at: dict[ir.Operation, tuple[int, int, dict[int, int]]] = {}

    @classmethod
    def of(cls, ops: list[ir.Operation]) -> "Clocks":
        """The clocks of a whole schedule."""
        clocks = cls()
        for op in ops:
            if op.name in ON_STREAM:
                clocks.advance(op)
        return clocks

    def advance(self, op: ir.Operation) -> None:
        """Passes an op of ``ON_STREAM``."""
        stream = stream_of(op)
        # What each stream did before the schedule counts as its first work: inputs and memory come from there.
        now = self._now.setdefault(stream, {stream: 1})
        if op.name in WORK:
            now[stream] = now.get(stream, 0) + 1
            self._at[op] = stream, now[stream], dict(now)
        elif op.name == "anabranch.record_event":
            self._events[op.results[0]] = dict(now)
        else:
            for other, count in self._events[op.operands[0]].items():
                now[other] = max(now.get(other, 0), count)

    def knows(self, stream: int, event: ir.Value) -> bool:
        """Whether the next op of ``stream`` runs after ``event`` even without waiting for it."""
        now = self._now.get(stream, {})
        return all(now.get(other, 0) >= count for other, count in self._events[event].items())

    def before(self, first: ir.Operation, second: ir.Operation) -> bool:
        """Whether work ``first`` is done before work ``second`` starts."""
        stream, count, _ = self._at[first]
        return first != second and self._at[second][2].get(stream, 0) >= count
