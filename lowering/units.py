"""Reads kernel form as a graph of units: calls that run on a stream, in program order, and the views between them."""

from dataclasses import dataclass, field

from torch_mlir import ir

from anabranch.dialect.layout import Layout

# A value of the program: an argument of the function, or (unit, number of its result).
Source = "ir.BlockArgument | tuple[Unit, int]"


@dataclass(eq=False)
class Unit:
    """One ``call_kernel``, ``extern`` or ``view``; ``stream`` is that of its region."""

    op: ir.Operation
    stream: int
    inputs: list[Source]
    layouts: list[Layout]

    @property
    def is_view(self) -> bool:
        return self.op.name == "anabranch.view"


@dataclass
class UnitGraph:
    """The units of a function and what the function returns."""

    units: list[Unit] = field(default_factory=list)
    returned: list[Source] = field(default_factory=list)


def read_units(function: ir.OpView) -> UnitGraph:
    """The units of a function in kernel form."""
    block = function.operation.regions[0].blocks[0]
    values: dict[ir.Value, Source] = {x: x for x in block.arguments}
    graph = UnitGraph()
    for region in (op.operation for op in block.operations):
        if region.name == "func.return":
            graph.returned = [values[x] for x in region.operands]
        elif region.name == "anabranch.region":
            inner = region.regions[0].blocks[0]
            values.update((x, values[y]) for x, y in zip(inner.arguments, region.operands))
            for op in (o.operation for o in inner.operations):
                if op.name == "anabranch.yield":
                    values.update((x, values[y]) for x, y in zip(region.results, op.operands))
                    continue
                layouts = [Layout.parse(ir.StringAttr(text).value) for text in op.attributes["layouts"]]
                unit = Unit(op, region.attributes["stream"].value, [values[x] for x in op.operands], layouts)
                values.update((x, (unit, i)) for i, x in enumerate(op.results))
                graph.units.append(unit)
    return graph


def memory(source: Source) -> Source:
    """What ``source`` shares memory with, if it is a view of something: an argument or a result of a call."""
    while not isinstance(source, ir.BlockArgument) and source[0].is_view:
        source = source[0].inputs[0]
    return source


def producers(unit: Unit) -> list[Unit]:
    """The calls whose results ``unit`` reads, through views, in the order of its inputs."""
    sources = [memory(x) for x in unit.inputs]
    return list(dict.fromkeys(x[0] for x in sources if not isinstance(x, ir.BlockArgument)))


def issue_order(units: list[Unit]) -> list[Unit]:
    """The calls among ``units`` in host order: each stream's in program order, streams merged by list scheduling.

    Each call is taken to last one unit of time and to start when its stream is free and its producers are done; the one
    that can start first is issued first (Graham 1966), so that no stream waits for the host behind another's long queue.
    """
    queues: dict[int, list[Unit]] = {}
    for unit in units:
        if not unit.is_view:
            queues.setdefault(unit.stream, []).append(unit)
    rank = {unit: i for i, unit in enumerate(units)}
    heads, free = dict.fromkeys(queues, 0), dict.fromkeys(queues, 0)
    done: dict[Unit, int] = {}
    order = []
    while len(done) < sum(map(len, queues.values())):
        ready = []
        for stream, queue in queues.items():
            if heads[stream] < len(queue):
                unit = queue[heads[stream]]
                needs = producers(unit)
                if all(p in done for p in needs):
                    ready.append((max([free[stream], *(done[p] for p in needs)]), rank[unit], unit))
        start, _, unit = min(ready, key=lambda candidate: candidate[:2])
        heads[unit.stream] += 1
        done[unit] = free[unit.stream] = start + 1
        order.append(unit)
    return order
