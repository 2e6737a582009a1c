"""Brings forks and joins to strict normal form: one boundary for each value and stream that uses it.

Before, with a parameter %w that the user did not fork and a detour through stream 1:

    %x1 = fork %x {0 -> 1};  %x2 = fork %x1 {1 -> 2};  %y = torch.aten.mm %x2, %w;  %y0 = join %y {2 -> 0};  return %y0

After:

    %x2 = fork %x {0 -> 2};  %w2 = fork %w {0 -> 2};  %y = torch.aten.mm %x2, %w2;  %y0 = join %y {2 -> 0};  return %y0

Requires value form. Guarantees that every tensor operand is on the stream of its op, function arguments being on stream 0;
that no value crosses twice to the same stream, nor there and back; that no fork or join is dead; that a second run changes
nothing. A boundary between two side streams stays. Refuses what ``verify-streams`` refuses, and a list of tensors that would
have to cross.
"""

from torch_mlir import ir

from anabranch.dialect import membership
from anabranch.dialect.membership import defining_op, has_stream, is_boundary, is_list_of_tensors, origin
from anabranch.dialect.ops import functions


def legalize_streams(module: ir.Operation | ir.Module) -> None:
    """Rewrites each function of ``module`` to strict normal form, in place."""
    for function in functions(module):
        if membership.verify(function) is not None:
            # What is dead says nothing of streams: were it to decide where a floating value is, nobody could tell later.
            _erase_dead(function)
            _Legalizer(function, membership.infer(function)).run()
            _erase_dead(function)


def _erase_dead(function: ir.OpView) -> None:
    """Erases the forks, joins and lists of tensors that nothing uses."""
    for op in reversed(list(function.operation.regions[0].blocks[0].operations)):
        unused = not any(True for result in op.operation.results for _ in result.uses)
        if unused and (is_boundary(op) or is_list_of_tensors(op)):
            op.operation.erase()


class _Legalizer:
    """Rewrites one function; ``_crossed`` holds the boundary result for each value and stream that uses it."""

    def __init__(self, function: ir.OpView, streams: membership.Membership):
        self._block = function.operation.regions[0].blocks[0]
        self._streams = streams
        self._crossed: dict[tuple[ir.Value, int], ir.Value] = {}

    def run(self):
        for op in list(self._block.operations):
            stream = 0 if op.operation.name == "func.return" else self._streams.stream_of_op(op)
            if stream is not None:
                # Lists first, so that they stand where they would if they had been there before.
                for i, operand in sorted(enumerate(op.operation.operands), key=lambda item: not _is_list(item[1])):
                    if has_stream(operand):
                        op.operation.operands[i] = self._on_stream(operand, stream, op)

    def _on_stream(self, value: ir.Value, stream: int, user: ir.OpView) -> ir.Value:
        """``value`` as seen on ``stream``, through a boundary made before ``user`` if there is none yet."""
        value = origin(value)
        made_by = defining_op(value)
        source = 0 if made_by is None else self._streams.stream_of(value)
        if source == stream:
            return value
        if (value, stream) not in self._crossed:
            if made_by is not None and is_list_of_tensors(made_by):
                self._crossed[value, stream] = self._list_on_stream(made_by, stream, user)
            elif _is_list(value):
                reason = "an argument" if made_by is None else f"produced there by '{made_by.operation.name}'"
                user.operation.location.emit_error(
                    f"'{user.operation.name}' op on stream {stream} uses the list {value.get_name()} of stream {source} "
                    f"({reason}), but only tensors cross streams: take its tensors out on stream {source} and fork those"
                )
                return value
            else:
                self._crossed[value, stream] = _boundary(value, source, stream, user)
        return self._crossed[value, stream]

    def _list_on_stream(self, made_by: ir.OpView, stream: int, user: ir.OpView) -> ir.Value:
        """The same list made anew on ``stream``."""
        elements = [self._on_stream(x, stream, user) if has_stream(x) else x for x in made_by.operation.operands]
        copy = made_by.operation.clone(ir.InsertionPoint(user))
        for i, element in enumerate(elements):
            copy.operation.operands[i] = element
        return copy.operation.results[0]


def _is_list(value: ir.Value) -> bool:
    return str(value.type).startswith("!torch.list")


def _boundary(value: ir.Value, source: int, target: int, user: ir.OpView) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    return ir.Operation.create(
        "anabranch.join_stream" if target == 0 else "anabranch.fork_stream",
        results=[value.type],
        operands=[value],
        attributes={"source": ir.IntegerAttr.get(i64, source), "target": ir.IntegerAttr.get(i64, target)},
        loc=user.operation.location,
        ip=ir.InsertionPoint(user),
    ).results[0]
