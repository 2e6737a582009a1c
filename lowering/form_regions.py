"""Gathers the ops of each stream into regions that say what crosses: the function becomes a list of regions and a return.

Before, in strict normal form:

    %x1 = fork %x {0 -> 1};  %h = torch.aten.relu %x1;  %h0 = join %h {1 -> 0}
    %y = torch.aten.add.Tensor %h0, %x, %int1;  return %y

After:

    %h = "anabranch.region"(%x) ({^bb0(%a): %0 = torch.aten.relu %a;  yield %0}) {stream = 1}
    %y = "anabranch.region"(%h, %x) ({^bb0(%a, %b): %0 = torch.aten.add.Tensor %a, %b, %int1;  yield %0}) {stream = 0}
    return %y

A stream has one region open at a time. It closes when another stream uses one of its values, so that the wait of that
stream is for no later work; and when its next op needs a region of another stream that closed after it was opened, so that
its earlier work does not wait. Regions stand in the order in which they were opened, which is topological.

Requires strict normal form. Guarantees that fork and join are gone: what crosses is a region operand that a region of
another stream gives; function arguments are on stream 0. Constants are copied into each region that uses them, equal ones
once. Refuses operands that are on another stream than their op, and lists of tensors as results.
"""

from dataclasses import dataclass, field

from torch_mlir import ir

from anabranch.dialect import membership
from anabranch.dialect.membership import (
    defining_op,
    has_stream,
    is_boundary,
    is_constant,
    is_list_of_tensors,
    is_unpacking,
    origin,
)
from anabranch.dialect.ops import functions


def form_regions(module: ir.Operation | ir.Module) -> None:
    """Turns the body of each function of ``module`` into regions, in place."""
    for function in functions(module):
        streams = membership.verify(function)
        if streams is not None and _in_normal_form(function, streams):
            regions = _Grouping(streams).group(function)
            _emit(function, regions)


def _in_normal_form(function: ir.OpView, streams: membership.Membership) -> bool:
    for op in function.operation.regions[0].blocks[0].operations:
        stream = op.source.value if is_boundary(op) else streams.stream_of_op(op)
        for operand in op.operation.operands if stream is not None else ():
            made_on = 0 if defining_op(operand) is None else streams.stream_of(operand)
            if has_stream(operand) and made_on != stream:
                op.operation.location.emit_error(
                    f"'{op.operation.name}' op on stream {stream} uses {operand.get_name()} of stream {made_on} with no "
                    "fork or join between them: run legalize-streams first"
                )
                return False
        if op.operation.name == "func.return":
            for operand in op.operation.operands:
                if str(operand.type).startswith("!torch.list") and has_stream(operand):
                    op.operation.location.emit_error(
                        f"'func.return' op returns the list {operand.get_name()}, but only tensors leave regions: return "
                        "each of its tensors"
                    )
                    return False
    return True


@dataclass(eq=False)
class _Region:
    """A region to be: times count openings and closings, ``closed`` is None while it may still grow."""

    stream: int
    opened: int
    closed: int | None = None
    ops: list[ir.OpView] = field(default_factory=list)


class _Grouping:
    """Assigns the ops of one function to regions, in program order."""

    def __init__(self, streams: membership.Membership):
        self._streams = streams
        self._regions: list[_Region] = []
        self._open: dict[int, _Region] = {}
        self._region_of: dict[ir.Value, _Region] = {}
        self._time = 0

    def group(self, function: ir.OpView) -> list[_Region]:
        """The regions in the order of their opening."""
        for op in function.operation.regions[0].blocks[0].operations:
            if op.operation.name == "func.return" or is_boundary(op) or is_constant(op) or is_list_of_tensors(op):
                continue
            region = self._region_for(op)
            region.ops.append(op)
            self._region_of.update((result, region) for result in op.operation.results)
        return self._regions

    def _region_for(self, op: ir.OpView) -> _Region:
        stream = self._streams.stream_of_op(op)
        needs = [self._region_of[x] for x in used_values(op) if x in self._region_of]
        if is_unpacking(op):
            # It only names a part of what its list holds, and the list itself cannot leave the region.
            return needs[0]
        others = [region for region in needs if region.stream != stream]
        for region in others:
            if region.closed is None:
                region.closed = self._tick()
        current = self._open.get(stream)
        if current is None or current.closed is not None or any(region.closed > current.opened for region in others):
            current = self._open[stream] = _Region(stream, self._tick())
            self._regions.append(current)
        return current

    def _tick(self) -> int:
        self._time += 1
        return self._time


def used_values(op: ir.OpView) -> list[ir.Value]:
    """The arguments and computed values that ``op`` uses, looking through forks, joins and lists; constants left out."""
    values = []
    for operand in op.operation.operands:
        made_by = defining_op(value := origin(operand))
        if made_by is not None and is_list_of_tensors(made_by):
            values += used_values(made_by)
        elif made_by is None or not is_constant(made_by):
            values.append(value)
    return values


def _emit(function: ir.OpView, regions: list[_Region]):
    """Replaces the body of ``function`` by ``regions``."""
    block = function.operation.regions[0].blocks[0]
    old = list(block.operations)
    end = old[-1].operation
    returned = [origin(x) for x in end.operands]
    inputs, leaving = {}, set(returned)
    for region in regions:
        own = {result for op in region.ops for result in op.operation.results}
        inputs[region] = list(dict.fromkeys(x for op in region.ops for x in used_values(op) if x not in own))
        leaving.update(inputs[region])
    # What the values of the old body are in the new one.
    values: dict[ir.Value, ir.Value] = {x: x for x in block.arguments}
    for region in regions:
        _emit_region(region, inputs[region], leaving, values, ir.InsertionPoint(end))
    for i, value in enumerate(returned):
        end.operands[i] = values.get(value, value)
    for op in reversed(old[:-1]):
        # The constants that the function itself returns stay.
        if not any(True for result in op.operation.results for _ in result.uses):
            op.operation.erase()


def _emit_region(
    region: _Region, inputs: list[ir.Value], leaving: set[ir.Value], values: dict[ir.Value, ir.Value], ip: ir.InsertionPoint
):
    """Makes the op of one region before ``ip`` and enters its results into ``values``."""
    outputs = [result for op in region.ops for result in op.operation.results if result in leaving]
    location = region.ops[0].operation.location
    new = ir.Operation.create(
        "anabranch.region",
        results=[x.type for x in outputs],
        operands=[values[x] for x in inputs],
        attributes={"stream": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), region.stream)},
        regions=1,
        loc=location,
        ip=ip,
    )
    block = ir.Block.create_at_start(new.regions[0], [x.type for x in inputs], [location] * len(inputs))
    body = _Body(block, dict(zip(inputs, block.arguments)))
    for op in region.ops:
        body.copy(op)
    yielded = [body.value(x) for x in outputs]
    ir.Operation.create("anabranch.yield", operands=yielded, loc=location, ip=ir.InsertionPoint(block))
    values.update(zip(outputs, new.results))


class _Body:
    """The block of one region while it is filled; constants and lists are copied when first used."""

    def __init__(self, block: ir.Block, values: dict[ir.Value, ir.Value]):
        self._block = block
        self._values = values
        self._equal: dict[tuple, ir.Operation] = {}

    def value(self, old: ir.Value) -> ir.Value:
        """What ``old`` of the function is in this region."""
        old = origin(old)
        if old not in self._values:
            self.copy(defining_op(old), merge=True)
        return self._values[old]

    def copy(self, op: ir.OpView, merge: bool = False):
        """Copies ``op`` to the end of the block; with ``merge``, an equal op that is there already is used instead."""
        operands = [self.value(x) for x in op.operation.operands]
        types = tuple(x.type for x in op.operation.results)
        key = (op.operation.name, tuple(op.operation.attributes.items()), tuple(operands), types)
        copy = self._equal.get(key) if merge else None
        if copy is None:
            copy = op.operation.clone(ir.InsertionPoint(self._block)).operation
            for i, operand in enumerate(operands):
                copy.operands[i] = operand
            if merge:
                self._equal[key] = copy
        self._values.update(zip(op.operation.results, copy.results))
