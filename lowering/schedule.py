"""Turns kernel form into one list in host order: launches and calls on streams, events and waits, and buffers.

Before, a region of stream 1 and one of stream 0 that uses what it gives:

    %h = region(%x) {call_kernel @kernel_0(%x)} {stream = 1}
    %y = region(%h) {extern "aten.mm.default"(%h, %h)} {stream = 0}

After:

    %start = record_event 0;  wait_event %start on 1
    %a = alloc {space = "arena", ...};  launch @kernel_0 (%x) -> (%a) on 1;  %e = record_event 1
    wait_event %e on 0;  %b = alloc {space = "output", ...};  call_extern "aten.mm.out" (%a, %a) -> (%b) on 0
    wait_event %e on 0;  return %b

Requires kernel form. Guarantees a wait for each call and each producer of another stream that it reads from, an event
right after each such producer; that side streams start after the caller's stream has come to the call, since arguments and
memory are ready there, and that they are all done when it goes on; and that streams which the user owns, where the caller
may have put work and may put more, are before the call and after it. ``elide-waits`` removes what is too much;
``plan-memory`` lets buffers share bytes. Refuses nothing.
"""

from torch_mlir import ir

from anabranch.dialect.layout import LAYOUT_ATTR, Layout
from anabranch.dialect.ops import EventType, functions, stream_table
from anabranch.lowering.extern_convention import Convention, convention
from anabranch.lowering.lower_kernels import KERNEL_ATTR, OPS_ATTR
from anabranch.lowering.memref import memref
from anabranch.lowering.plan_memory import aligned
from anabranch.lowering.schedule_form import is_schedule
from anabranch.lowering.units import Source, Unit, UnitGraph, issue_order, memory, producers, read_units


def schedule(module: ir.Operation | ir.Module) -> None:
    """Replaces each function of ``module`` that is no kernel by its schedule."""
    with module.operation.context:
        for function in functions(module):
            if KERNEL_ATTR not in function.operation.attributes and not is_schedule(function):
                _Scheduler(function.operation, read_units(function)).run()


class _Scheduler:
    """Writes the schedule of one function into its block, in place of the regions."""

    def __init__(self, function: ir.Operation, graph: UnitGraph):
        self._function = function
        self._graph = graph
        functions_ = [op.operation for op in function.block.operations]
        self._kernels = {ir.StringAttr(f.attributes["sym_name"]).value: f for f in functions_ if KERNEL_ATTR in f.attributes}
        self._order = issue_order(graph.units)
        self._position = {unit: i for i, unit in enumerate(self._order)}
        self._last = {unit.stream: unit for unit in self._order}
        self._returned = {x for x in map(memory, graph.returned) if not isinstance(x, ir.BlockArgument)}
        # The calls that some other stream waits for.
        self._awaited = {p for unit in self._order for p in producers(unit) if p.stream != unit.stream}
        self._awaited |= {unit for unit in [*self._last.values(), *(x[0] for x in self._returned)] if unit.stream != 0}
        table = stream_table(function.parent) or {}
        self._callers_streams = [i for i, kind in sorted(table.items()) if kind == "user"]
        self._values: dict[Source, ir.Value] = {}
        self._events: dict[Unit, ir.Value] = {}
        # Results that the op which writes them allocates and that end with the call.
        self._foreign: set[Source] = set()
        self._arena_end: dict[str, int] = {}

    def run(self) -> None:
        block = self._function.regions[0].blocks[0]
        old = [op.operation for op in block.operations]
        arguments = list(self._function.attributes["arg_attrs"]) if len(block.arguments) else []
        for argument, named in zip(block.arguments, arguments):
            self._values[argument] = argument
            argument.set_type(memref(Layout.parse(ir.StringAttr(named[LAYOUT_ATTR]).value)))
        with ir.InsertionPoint(old[-1]), old[-1].location:
            start = self._enter()
            for unit in self._order:
                self._issue(unit, start)
            results = self._results()
            self._leave()
            ir.Operation.create("func.return", operands=results)
        for op in reversed(old):
            op.erase()
        type_ = ir.FunctionType.get([x.type for x in block.arguments], [x.type for x in results])
        self._function.attributes["function_type"] = ir.TypeAttr.get(type_)
        if "res_attrs" in self._function.attributes:
            del self._function.attributes["res_attrs"]

    def _enter(self) -> ir.Value | None:
        """Puts the call after what the caller did before, on streams of its own, too.

        Returns the event that side streams wait for.
        """
        for stream in self._callers_streams:
            self._wait(0, self._record(stream))
        return self._record(0) if any(stream != 0 for stream in self._last) else None

    def _issue(self, unit: Unit, start: ir.Value) -> None:
        """One call with the waits before it and the event after it."""
        stream = unit.stream
        self._wait_for([p for p in producers(unit) if p.stream != stream], stream)
        if stream != 0:
            self._wait(stream, start)
        inputs = [self._value(x, self._values) for x in unit.inputs]
        if unit.op.name == "anabranch.call_kernel":
            outputs = [self._alloc(unit, i, "arena") for i in range(len(unit.layouts))]
            callee = unit.op.attributes["callee"]
            attributes = {"callee": callee} | self._ops_of_kernel(callee)
            self._work("launch", unit.op, inputs, outputs, attributes, stream)
        else:
            how = convention(
                ir.StringAttr(unit.op.attributes["callee"]).value,
                ir.StringAttr(unit.op.attributes["arguments"]).value,
                unit.layouts,
            )
            space = "arena" if how.name == "out" else "foreign"
            outputs = [self._alloc(unit, i, space) for i in range(len(unit.layouts))]
            self._call(unit.op, how, inputs, outputs, stream)
        self._values.update(((unit, i), x) for i, x in enumerate(outputs))
        if unit in self._awaited:
            self._events[unit] = self._record(stream)

    def _results(self) -> list[ir.Value]:
        """What the function returns. Memory that a side stream allocated is its own: the caller gets a copy."""
        copied = {x for x in self._returned if x in self._foreign}
        values = {x: value for x, value in self._values.items() if memory(x) not in copied}
        for unit, i in sorted(copied, key=lambda x: (self._position[x[0]], x[1])):
            self._wait_for([unit], 0)
            original = self._values[unit, i]
            values[unit, i] = self._alloc(unit, i, "output")
            copy = Convention("aten.copy_.default", "%0", "out")
            self._call(unit.op, copy, [original], [values[unit, i]], 0)
        return [self._value(x, values) for x in self._graph.returned]

    def _leave(self) -> None:
        """Puts what the caller does next after all work, on its own streams, too.

        And what a side stream does next after the last use of memory that came from it.
        """
        self._wait_for([unit for stream, unit in self._last.items() if stream != 0], 0)
        users = {(memory(x), unit.stream) for unit in self._order for x in unit.inputs}
        users |= {(x, 0) for x in self._returned}
        late = {x[0].stream for x, stream in users if x in self._foreign and x[0].stream not in (0, stream)}
        late.update(self._callers_streams)
        if late:
            end = self._record(0)
            for stream in sorted(late):
                self._wait(stream, end)

    def _value(self, source: Source, values: dict[Source, ir.Value]) -> ir.Value:
        """The memref of ``source``; a view is written when it is first asked for."""
        if source not in values:
            view = source[0]
            types = [memref(layout) for layout in view.layouts]
            attributes = {name: view.op.attributes[name] for name in ("callee", "arguments", "layouts")}
            operands = [self._value(x, values) for x in view.inputs]
            op = ir.Operation.create(
                "anabranch.view", results=types, operands=operands, attributes=attributes, loc=view.op.location
            )
            values.update(((view, i), x) for i, x in enumerate(op.results))
        return values[source]

    def _alloc(self, unit: Unit, i: int, space: str) -> ir.Value:
        """Memory for result ``i`` of ``unit``: of its own where the caller gets it, else bytes that no other buffer has."""
        layout = unit.layouts[i]
        if space == "arena" and (unit, i) in self._returned:
            space = "output"
        offset = 0
        if space == "arena":
            offset = self._arena_end.get(layout.device, 0)
            self._arena_end[layout.device] = offset + aligned(layout.nbytes)
        elif space == "foreign" and (unit.stream != 0 or (unit, i) not in self._returned):
            self._foreign.add((unit, i))
        attributes = {
            "space": ir.StringAttr.get(space),
            "offset": _i64(offset),
            "bytes": _i64(layout.nbytes),
            "device": ir.StringAttr.get(layout.device),
        }
        return ir.Operation.create("anabranch.alloc", results=[memref(layout)], attributes=attributes).results[0]

    def _ops_of_kernel(self, callee: ir.FlatSymbolRefAttr) -> dict[str, ir.Attribute]:
        """What the kernel computes, for people who read the plan."""
        attributes = self._kernels[callee.value].attributes if callee.value in self._kernels else {}
        return {OPS_ATTR: attributes[OPS_ATTR]} if OPS_ATTR in attributes else {}

    def _call(self, op: ir.Operation, how: Convention, inputs: list[ir.Value], outputs: list[ir.Value], stream: int) -> None:
        attributes = {
            "callee": ir.StringAttr.get(how.callee),
            "arguments": ir.StringAttr.get(how.arguments),
            "convention": ir.StringAttr.get(how.name),
            OPS_ATTR: ir.ArrayAttr.get([op.attributes["callee"]]),
        }
        self._work("call_extern", op, inputs, outputs, attributes, stream)

    def _work(
        self, name: str, op: ir.Operation, inputs: list[ir.Value], outputs: list[ir.Value], attributes: dict, stream: int
    ):
        segments = ir.DenseI32ArrayAttr.get([len(inputs), len(outputs)])
        ir.Operation.create(
            f"anabranch.{name}",
            operands=[*inputs, *outputs],
            attributes=attributes | {"stream": _i64(stream), "operandSegmentSizes": segments},
            loc=op.location,
        )

    def _record(self, stream: int) -> ir.Value:
        type_ = EventType.get()
        return ir.Operation.create("anabranch.record_event", results=[type_], attributes={"stream": _i64(stream)}).results[0]

    def _wait(self, stream: int, event: ir.Value) -> None:
        ir.Operation.create("anabranch.wait_event", operands=[event], attributes={"stream": _i64(stream)})

    def _wait_for(self, units: list[Unit], stream: int) -> None:
        for unit in sorted(units, key=self._position.__getitem__):
            self._wait(stream, self._events[unit])


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
