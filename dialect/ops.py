"""The ``anabranch`` MLIR dialect: every op of every stage, defined in Python.

Value form uses ``fork_stream`` and ``join_stream``; region form adds ``region`` and ``yield``; kernel form adds
``call_kernel``, ``extern`` and ``view``; schedule form is made of ``alloc``, ``view``, ``launch``, ``call_extern``,
``record_event`` and ``wait_event``. The streams of a module are named by its attribute ``anabranch.streams``, a dictionary
from the id to what it is: ``{"0" = "current", "1" = "pool", "2" = "user"}``.
"""

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from anabranch.dialect.definition import Body, Op, Operand, Operands, Result, Results
from anabranch.dialect.errors import AnabranchError

STREAMS_ATTR = "anabranch.streams"
ALLOC_SPACES = ("arena", "output", "foreign")
EXTERN_CONVENTIONS = ("out", "return")


class EventType:
    """The type of a point in one stream's work, made by ``record_event``."""

    TEXT = "!anabranch.event"

    @staticmethod
    def get() -> ir.Type:
        """The type, in the current context."""
        return ir.Type.parse(EventType.TEXT)


class MalformedStreamTable(AnabranchError):
    """The attribute of a module that says what its streams are cannot be read."""

    message = '\'{attribute}\' is {table}: write what each stream is by its id: {{"0" = "current", "1" = "pool"}}'


def stream_table(module: ir.Operation) -> dict[int, str] | None:
    """What each stream of ``module`` is, by id; None if the module does not say. Raises ``MalformedStreamTable``."""
    if STREAMS_ATTR not in module.attributes:
        return None
    table = module.attributes[STREAMS_ATTR]
    entries = list(table) if isinstance(table, ir.DictAttr) else []
    if not entries or not all(entry.name.isdecimal() and isinstance(entry.attr, ir.StringAttr) for entry in entries):
        raise MalformedStreamTable(attribute=STREAMS_ATTR, table=table)
    return {int(entry.name): entry.attr.value for entry in entries}


def functions(module: ir.Operation | ir.Module) -> list[ir.OpView]:
    """The functions of ``module`` that have a body, in order."""
    ops = module.operation.regions[0].blocks[0].operations
    return [op for op in ops if op.operation.name == "func.func" and len(op.operation.regions[0].blocks)]


def _verify_streams(op, *ids: int) -> bool:
    """Checks that ``ids`` are streams of the module around ``op``, where the module says which it has."""
    module = op.operation
    while module.name != "builtin.module" and module.parent is not None:
        module = module.parent.operation
    try:
        table = stream_table(module)
    except MalformedStreamTable as error:
        return op.fail(f"cannot look up its streams: {error}")
    for i in ids:
        if i < 0:
            return op.fail(f"names streams by non-negative ids, not by {i}")
        if table is not None and i not in table:
            known = ", ".join(f"{id_} ({what})" for id_, what in sorted(table.items()))
            return op.fail(f"uses unknown stream id {i}: this module has streams {known}; add it to '{STREAMS_ATTR}'")
    return True


def _verify_boundary(op) -> bool:
    """Checks what ``fork_stream`` and ``join_stream`` share."""
    # that each operand has its result, of the same type
    operands, results = list(op.operation.operands), list(op.operation.results)
    if len(operands) != len(results):
        return op.fail(f"returns each operand on the target stream: {len(operands)} operands but {len(results)} results")
    for i, (x, y) in enumerate(zip(operands, results)):
        if x.type != y.type:
            return op.fail(f"returns each operand unchanged: operand {i} is {x.type} but result {i} is {y.type}")
        # that only tensors cross: anything else has no stream
        if not is_tensor(x.type):
            return op.fail(f"takes tensors only: operand {i} is {x.type}")
    # that the boundary has two sides
    source, target = op.source.value, op.target.value
    if source == target:
        return op.fail(f"crosses from one stream to another: source and target are both {source}")
    return _verify_streams(op, source, target)


def is_tensor(type_: ir.Type) -> bool:
    """Whether ``type_`` is a tensor of the torch dialect or of builtin."""
    text = str(type_)
    return text.startswith(("!torch.vtensor", "!torch.tensor", "tensor<"))


class ForkStreamOp(Op, name="fork_stream"):
    """The same values, usable on ``target`` after every producer on ``source``."""

    xs: Operands
    ys: Results
    source: ir.IntegerAttr
    target: ir.IntegerAttr

    def check(self):
        return _verify_boundary(self)


class JoinStreamOp(Op, name="join_stream"):
    """The same edge as ``fork_stream`` in the other direction: each is the other's adjoint."""

    xs: Operands
    ys: Results
    source: ir.IntegerAttr
    target: ir.IntegerAttr

    def check(self):
        return _verify_boundary(self)


class RegionOp(Op, name="region"):
    """A run of work on one stream; operands and results are all that crosses its boundary."""

    inputs: Operands
    outputs: Results
    stream: ir.IntegerAttr
    body: Body

    def check(self):
        block = self.operation.regions[0].blocks[0]
        # that the block's arguments are the operands, and the yielded values the results
        want, have = [x.type for x in self.operation.operands], [x.type for x in block.arguments]
        if want != have:
            return self.fail(f"passes its operands to its block: operands are {_types(want)}, arguments {_types(have)}")
        last = list(block.operations)[-1].operation if len(block.operations) else None
        if last is None or last.name != "anabranch.yield":
            return self.fail("ends with 'anabranch.yield'")
        want, have = [x.type for x in self.operation.results], [x.type for x in last.operands]
        if want != have:
            return self.fail(f"returns what it yields: results are {_types(want)}, yielded {_types(have)}")
        # that the body sees nothing but its arguments, at any depth
        for user, value in _uses_below(block):
            if not _is_inside(value, self.operation):
                return self.fail(f"is isolated: '{user.name}' in its body uses {value.get_name()} from outside")
        return _verify_streams(self, self.stream.value)


def _uses_below(block: ir.Block) -> list[tuple[ir.Operation, ir.Value]]:
    """Each op under ``block`` with each of its operands."""
    uses = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        uses.extend((operation, value) for value in operation.operands)
        return ir.WalkResult.ADVANCE

    for op in block.operations:
        op.operation.walk(visit)
    return uses


def _is_inside(value: ir.Value, operation: ir.Operation) -> bool:
    """Whether ``value`` is made in a body of ``operation``."""
    around = value.owner.owner if isinstance(value, ir.BlockArgument) else value.owner.parent
    while around is not None and around.operation != operation:
        around = around.operation.parent
    return around is not None


def _types(types) -> str:
    return "(" + ", ".join(str(t) for t in types) + ")"


class YieldOp(Op, name="yield"):
    """Ends a region with the values that leave it."""

    values: Operands

    def check(self):
        if self.operation.parent.name != RegionOp.OPERATION_NAME:
            return self.fail(f"ends the body of '{RegionOp.OPERATION_NAME}', not of '{self.operation.parent.name}'")
        # that nothing follows: MLIR does not know this op to be a terminator
        if list(self.operation.block.operations)[-1] != self:
            return self.fail("ends its block, but ops follow it")
        return True


def _verify_layouts(op) -> bool:
    """Checks that ``op`` says where each of its results lies."""
    if len(op.layouts) != len(op.operation.results) or not all(isinstance(x, ir.StringAttr) for x in op.layouts):
        return op.fail(f"says where each result lies: {len(op.operation.results)} results, but 'layouts' is {op.layouts}")
    return True


class CallKernelOp(Op, name="call_kernel"):
    """Kernel form: calls a kernel function of the module (linalg on tensors) with tensor values."""

    inputs: Operands
    outputs: Results
    callee: ir.FlatSymbolRefAttr
    layouts: ir.ArrayAttr

    def check(self):
        return _verify_layouts(self)


class ExternOp(Op, name="extern"):
    """Kernel form: calls an op that PyTorch runs; ``arguments`` is its argument list, ``%i`` standing for operand i."""

    inputs: Operands
    outputs: Results
    callee: ir.StringAttr
    arguments: ir.StringAttr
    layouts: ir.ArrayAttr

    def check(self):
        return _verify_layouts(self)


class ViewOp(Op, name="view"):
    """A tensor that shares its operand's memory: no kernel runs. In kernel form on tensors, in schedule form on memrefs."""

    source: Operand
    outputs: Results
    callee: ir.StringAttr
    arguments: ir.StringAttr
    layouts: ir.ArrayAttr

    def check(self):
        return _verify_layouts(self)


class AllocOp(Op, name="alloc"):
    """Schedule form: a buffer. ``space`` says whose memory it is.

    ``arena``: ``offset`` bytes into the call's arena; ``output``: memory of its own, returned to the caller;
    ``foreign``: the op that writes it allocates it, on its own stream.
    """

    buffer: Result
    space: ir.StringAttr
    offset: ir.IntegerAttr
    bytes: ir.IntegerAttr
    device: ir.StringAttr

    def check(self):
        if self.space.value not in ALLOC_SPACES:
            return self.fail(f"has space '{self.space.value}': write one of {', '.join(ALLOC_SPACES)}")
        if self.offset.value < 0 or self.bytes.value < 0:
            return self.fail(f"lies at {self.offset.value} and has {self.bytes.value} bytes: neither can be negative")
        return True


class LaunchOp(Op, name="launch"):
    """Schedule form: launches a kernel on ``stream``; reads ``inputs``, writes ``outputs``."""

    inputs: Operands
    outputs: Operands
    callee: ir.FlatSymbolRefAttr
    stream: ir.IntegerAttr

    def check(self):
        return _verify_streams(self, self.stream.value)


class CallExternOp(Op, name="call_extern"):
    """Schedule form: calls a PyTorch op on ``stream``; reads ``inputs``, writes ``outputs``.

    ``convention`` is ``out`` (the op writes into given buffers) or ``return`` (the op allocates its results itself).
    """

    inputs: Operands
    outputs: Operands
    callee: ir.StringAttr
    arguments: ir.StringAttr
    convention: ir.StringAttr
    stream: ir.IntegerAttr

    def check(self):
        if self.convention.value not in EXTERN_CONVENTIONS:
            return self.fail(f"has convention '{self.convention.value}': write one of {', '.join(EXTERN_CONVENTIONS)}")
        return _verify_streams(self, self.stream.value)


class RecordEventOp(Op, name="record_event"):
    """Schedule form: an event that is reached when all work issued to ``stream`` so far is done."""

    event: Result
    stream: ir.IntegerAttr

    def check(self):
        if str(self.event.type) != EventType.TEXT:
            return self.fail(f"has an event of type {self.event.type}: it is a {EventType.TEXT}")
        return _verify_streams(self, self.stream.value)


class WaitEventOp(Op, name="wait_event"):
    """Schedule form: work issued to ``stream`` from here on starts after ``event``."""

    event: Operand
    stream: ir.IntegerAttr

    def check(self):
        if str(self.event.type) != EventType.TEXT:
            return self.fail(f"has an event of type {self.event.type}: it is a {EventType.TEXT}")
        return _verify_streams(self, self.stream.value)


def new_context() -> ir.Context:
    """A context with the torch dialect, in which the ops of this dialect may stand."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    context.allow_unregistered_dialects = True
    return context
