"""Which stream each value of a function in value form is on, inferred from its fork and join ops.

A value is *definite* where ops say its stream: a result of a fork or join is on its target, and an op with a definite
tensor operand runs on that operand's stream, as do its results. Everything else is *floating*: function arguments, and
results of ops all of whose tensor operands are floating (constants, ``full``, ``arange``). A floating value takes the
stream of its users; with users on several streams, or none, it is on stream 0, the caller's.

Numbers, strings, and lists of them are *constants*: they have no stream and are copied to wherever they are used.
"""

from collections import defaultdict
from dataclasses import dataclass

from torch_mlir import ir

BOUNDARIES = ("anabranch.fork_stream", "anabranch.join_stream")
_UNPACKING = ("torch.prim.ListUnpack", "torch.aten.__getitem__.t")


def is_boundary(op: ir.OpView) -> bool:
    """Whether ``op`` is a fork or a join."""
    return op.operation.name in BOUNDARIES


def has_stream(value: ir.Value) -> bool:
    """Whether ``value`` is a tensor or holds tensors (a list or optional of them)."""
    return "tensor" in str(value.type)


def defining_op(value: ir.Value) -> ir.OpView | None:
    """The op whose result ``value`` is, or None for an argument of a function or region."""
    return None if isinstance(value, ir.BlockArgument) else value.owner.opview


def is_list_of_tensors(op: ir.OpView) -> bool:
    """Whether ``op`` puts tensors, or nothing, into a list of tensors: no work, and made anew wherever the list is used."""
    return op.operation.name == "torch.prim.ListConstruct" and has_stream(op.operation.results[0])


def is_unpacking(op: ir.OpView) -> bool:
    """Whether ``op`` takes tensors out of a list that another op gave: it runs there, as lists cannot cross streams."""
    if op.operation.name not in _UNPACKING or not has_stream(op.operation.operands[0]):
        return False
    made_by = defining_op(op.operation.operands[0])
    return made_by is not None and not is_list_of_tensors(made_by)


def origin(value: ir.Value) -> ir.Value:
    """The value that ``value`` is once forks and joins are looked through."""
    while (made_by := defining_op(value)) is not None and is_boundary(made_by):
        value = made_by.operation.operands[value.result_number]
    return value


def is_constant(op: ir.OpView) -> bool:
    """Whether ``op`` makes a number, a string or a list of them out of nothing but such: it belongs to no stream."""
    op = op.operation
    return (
        bool(op.results)
        and not any(has_stream(x) for x in [*op.operands, *op.results])
        and all((made_by := defining_op(x)) is not None and is_constant(made_by) for x in op.operands)
    )


@dataclass(frozen=True)
class Conflict:
    """An op that uses ``value`` although ``value`` is not on stream ``wanted``, where the op needs it.

    ``other`` is the operand that put the op on ``wanted``; None where the op itself says so (a fork, a join, the return).
    """

    op: ir.OpView
    value: ir.Value
    wanted: int
    other: ir.Value | None


class Membership:
    """The stream of each op and value of one function, and the uses that contradict it."""

    def __init__(self):
        self.conflicts: list[Conflict] = []
        self._values: dict[ir.Value, int] = {}
        self._ops: dict[ir.OpView, int] = {}
        self._reasons: dict[ir.Value, str] = {}

    def stream_of(self, value: ir.Value) -> int | None:
        """The stream that ``value`` is on; None for constants."""
        return self._values.get(value)

    def stream_of_op(self, op: ir.OpView) -> int | None:
        """The stream on which ``op`` runs; None for constants, forks, joins and the return."""
        return self._ops.get(op)

    def why(self, value: ir.Value) -> str:
        """What put ``value`` on its stream: ``produced there by 'torch.aten.mm'``, ``used there by 'torch.aten.add'``."""
        return self._reasons[value]

    def _settle(self, value: ir.Value, stream: int, reason: str):
        self._values[value] = stream
        self._reasons[value] = reason


def infer(function: ir.OpView) -> Membership:
    """The membership of ``function``, a ``func.func`` with one block in value form.

    Where a use contradicts what is known, the first definite operand decides and the use is noted in ``conflicts``.
    """
    membership = Membership()
    block = function.operation.regions[0].blocks[0]
    ops = [op for op in block.operations if not is_constant(op)]
    floating = _infer_forward(membership, ops)
    _resolve_floating(membership, block, ops, floating)
    return membership


def _infer_forward(membership: Membership, ops: list[ir.OpView]) -> set[ir.OpView]:
    """Settles what is definite; returns the ops left floating."""
    floating = set()
    for op in ops:
        definite = [x for x in op.operation.operands if has_stream(x) and membership.stream_of(x) is not None]
        other, stream = None, None
        if is_boundary(op):
            wanted, stream = op.source.value, op.target.value
        elif op.operation.name == "func.return":
            wanted = 0
        elif definite:
            other = definite[0]
            wanted = stream = membership._ops[op] = membership.stream_of(other)
        else:
            floating.add(op)
            continue
        membership.conflicts += [Conflict(op, x, wanted, other) for x in definite if membership.stream_of(x) != wanted]
        for result in op.operation.results:
            membership._settle(result, stream, f"produced there by '{op.operation.name}'")
    return floating


def _resolve_floating(membership: Membership, block: ir.Block, ops: list[ir.OpView], floating: set[ir.OpView]):
    """Gives each floating op and argument the one stream of its users, or else stream 0."""
    # For each value, the streams that use it, each with one of the ops that do.
    users: dict[ir.Value, dict[int, ir.OpView]] = defaultdict(dict)

    def resolve(values: list[ir.Value]) -> int:
        wanted = {stream: user for x in values for stream, user in users[x].items()}
        if len(wanted) == 1:
            stream, user = next(iter(wanted.items()))
            reason = f"used there by '{user.operation.name}'"
        else:
            stream, reason = 0, f"used on streams {sorted(wanted)}" if wanted else "used nowhere"
        for value in values:
            membership._settle(value, stream, reason)
        return stream

    for op in reversed(ops):
        results = list(op.operation.results)
        if is_boundary(op):
            wanted = {op.source.value: op}
        elif op in floating and is_unpacking(op):
            # The list it takes from has to be where the elements are wanted.
            wanted = {stream: user for x in results for stream, user in users[x].items()}
        else:
            if op in floating:
                membership._ops[op] = resolve(results)
            wanted = {membership._ops.get(op, 0): op}
        for operand in op.operation.operands:
            users[operand].update(wanted)
    for argument in block.arguments:
        resolve([argument])
    for op in ops:
        if op in floating and is_unpacking(op):
            stream = membership._ops[op] = membership.stream_of(op.operation.operands[0])
            for result in op.operation.results:
                membership._settle(result, stream, f"taken there from {op.operation.operands[0].get_name()}")


def verify(function: ir.OpView) -> Membership | None:
    """The membership of ``function``; None, with an error emitted for each conflict, where its streams contradict.

    None, too, where ``function`` is not in value form: ops inside ops, or several blocks, would be passed over.
    """
    if not _is_flat(function):
        return None
    membership = infer(function)
    for conflict in membership.conflicts:
        conflict.op.operation.location.emit_error(_explain(membership, conflict))
    return None if membership.conflicts else membership


def _is_flat(function: ir.OpView) -> bool:
    blocks = list(function.operation.regions[0].blocks)
    if len(blocks) > 1:
        function.operation.location.emit_error(f"'func.func' op has {len(blocks)} blocks, but value form has one")
        return False
    for op in blocks[0].operations:
        if len(op.operation.regions):
            op.operation.location.emit_error(
                f"'{op.operation.name}' op holds other ops, but value form is one flat list: pass what it computes as an op "
                "of its own, or run this pass before the ops are gathered into regions"
            )
            return False
    return True


def _explain(membership: Membership, conflict: Conflict) -> str:
    op, value, wanted, other = conflict.op, conflict.value, conflict.wanted, conflict.other
    name, stream = value.get_name(), membership.stream_of(value)
    this = f"'{op.operation.name}' op"
    on_stream = f"{name} on stream {stream} ({membership.why(value)})"
    if op.operation.name == "func.return":
        return (
            f"{this} returns {on_stream}, but results are on stream 0: write {_edge(name, stream, 0)} and return its result"
        )
    if other is None:
        return (
            f"{this} takes {name} from stream {wanted}, but {name} is on stream {stream} ({membership.why(value)}): "
            f"write source = {stream} : i64, or bring it there first with {_edge(name, stream, wanted)}"
        )
    # Work comes back to the caller's stream more often than it leaves it: of two streams one of which is 0, join the other.
    edge = _edge(name, stream, wanted) if stream else _edge(other.get_name(), wanted, 0)
    return (
        f"{this} uses {other.get_name()} on stream {wanted} ({membership.why(other)}) and {on_stream}, "
        f"but an op runs on one stream: write {edge} and use its result"
    )


def _edge(name: str, source: int, target: int) -> str:
    """The op to write that brings value ``name`` from ``source`` to ``target``."""
    op = "join_stream" if target == 0 else "fork_stream"
    return f'"anabranch.{op}"({name}) {{source = {source} : i64, target = {target} : i64}}'
