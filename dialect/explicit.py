"""Makes the functional graph explicit: afterwards only fork and join ops speak of streams, and no rewrite can lose them.

Before, with the key that contexts leave on ops:

    h = relu(x)   {stream 1};   y = add(h, x)

After:

    x1 = fork_stream([x], 0, 1)[0];  h = relu(x1);  h0 = join_stream([h], 1, 0)[0];  y = add(h0, x)

Where a context says on which stream an op runs, its operands are brought there: that is what contexts mean. Where forks and
joins that the user wrote say it, an op with operands on two streams is an error: which of them should move is not known.
An op outside all contexts, in a program that has some, is on the caller's stream. Whatever leaves the graph is joined.
"""

import operator
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

from anabranch.dialect.capture import place
from anabranch.dialect.errors import SourceContradiction, StreamMix
from anabranch.dialect.higher_order import has_effect, wrap_higher_order_ops
from anabranch.dialect.stream_context import STREAM_KEY
from anabranch.dialect.strided_view import make_strides_relative
from anabranch.dialect.torch_ops import FORK, JOIN


@dataclass(frozen=True)
class _Where:
    """The stream of a value; ``firm`` if a fork or join that the user wrote put it there, so that moving it is an error."""

    stream: int
    firm: bool


def make_explicit(gm: GraphModule) -> GraphModule:
    """Inserts forks and joins into the functional graph ``gm``, in place, erases the key, and returns it.

    Raises ``StreamMix`` and ``SourceContradiction``, which name the user's line.
    """
    _compute_lazy_views(gm.graph)
    wrap_higher_order_ops(gm)
    make_strides_relative(gm)
    gm.graph.eliminate_dead_code(has_effect)
    _Streams(gm.graph).run()
    gm.recompile()
    return gm


# Views that differ from their operand by a bit of the tensor object, which memory does not show.
_LAZY_VIEWS = {
    torch.ops.aten._conj.default: torch.ops.aten._conj_physical.default,
    torch.ops.aten._neg_view.default: torch.ops.aten.neg.default,
}


def _compute_lazy_views(graph: Graph) -> None:
    """Makes conjugated and negated views values of their own: kernels read memory, and would miss what is not done yet."""
    for node in graph.nodes:
        node.target = _LAZY_VIEWS.get(node.target, node.target)


class _Streams:
    """Walks the graph in order; a value that is not in ``_where`` floats: it is wherever it is used."""

    def __init__(self, graph: Graph):
        self._graph = graph
        contexts = {node: _context(node) for node in graph.nodes}
        self._contexts = {node: stream for node, stream in contexts.items() if stream is not None}
        self._where: dict[Node, _Where] = {}
        self._crossed: dict[tuple[Node, int], Node] = {}

    def run(self) -> None:
        for node in list(self._graph.nodes):
            if node.op == "output":
                self._bring_operands(node, 0)
            elif node.target in (FORK, JOIN):
                self._visit_boundary(node)
            elif node.op == "call_function":
                self._visit_call(node)
            (node.meta.get("custom") or {}).pop(STREAM_KEY, None)

    def _visit_boundary(self, node: Node) -> None:
        values, source, target = node.args
        for x in values:
            where = self._where.get(x)
            if where is not None and where.stream != source:
                raise SourceContradiction(
                    call=_written(node), value=_written(x), source=source, stream=where.stream, where=place(node)
                )
        self._where[node] = _Where(target, firm=True)

    def _visit_call(self, node: Node) -> None:
        operands = [x for x in node.all_input_nodes if x in self._where]
        if node.target is operator.getitem:
            # An element is where its list is.
            if operands:
                self._where[node] = self._where[operands[0]]
            return
        firm = [x for x in operands if self._where[x].firm]
        if node in self._contexts:
            where = _Where(self._contexts[node], firm=False)
        elif firm:
            where = self._where[firm[0]]
            for other in firm[1:]:
                if self._where[other].stream != where.stream:
                    raise self._mix(node, firm[0], other)
        elif self._contexts:
            where = _Where(0, firm=False)
        else:
            return
        self._where[node] = where
        self._bring_operands(node, where.stream)

    def _bring_operands(self, node: Node, stream: int) -> None:
        node.args = torch.fx.map_arg(node.args, lambda x: self._on(x, stream, node))
        node.kwargs = torch.fx.map_arg(node.kwargs, lambda x: self._on(x, stream, node))

    def _on(self, value: Node, stream: int, user: Node) -> Node:
        """``value`` on ``stream``, through a boundary before its first ``user`` there."""
        where = self._where.get(value)
        if where is None and not (self._contexts and isinstance(value.meta.get("val"), torch.Tensor)):
            return value
        source = 0 if where is None else where.stream
        if source == stream or not isinstance(value.meta.get("val"), torch.Tensor):
            return value
        if (value, stream) not in self._crossed:
            with self._graph.inserting_before(user):
                op = JOIN if stream == 0 else FORK
                boundary = self._graph.call_function(op, ([value], source, stream))
                crossed = self._graph.call_function(operator.getitem, (boundary, 0))
            # What the program returns has no line that uses it.
            trace = user.meta.get("stack_trace") or value.meta.get("stack_trace")
            boundary.meta = {"val": [value.meta["val"]], "stack_trace": trace}
            crossed.meta = {"val": value.meta["val"], "stack_trace": trace}
            self._crossed[value, stream] = crossed
        return self._crossed[value, stream]

    def _mix(self, node: Node, first: Node, second: Node) -> StreamMix:
        a, b = self._where[first].stream, self._where[second].stream
        # Work comes back to the caller's stream more often than it leaves it.
        moved, source, target = (first, a, b) if a else (second, b, a)
        name = "join_stream" if target == 0 else "fork_stream"
        return StreamMix(
            op=_written(node),
            first=_written(first),
            stream=a,
            second=_written(second),
            other=b,
            edge=f"anabranch.{name}({_name(moved)}, source={source}, target={target})",
            where=place(node),
        )


def _context(node: Node) -> int | None:
    """The stream of the context in which ``node`` was written. Of a placeholder it only says where it was first used."""
    return None if node.op == "placeholder" else (node.meta.get("custom") or {}).get(STREAM_KEY)


def _written(node: Node) -> str:
    return f"'{_name(node)}'"


def _name(node: Node) -> str:
    """What the user may know a value as: the name of its op; of a fork's result, the variable it was assigned to."""
    if node.target is not operator.getitem or node.args[0].target not in (FORK, JOIN):
        return node.name
    boundary, i = node.args
    targets, assigns, _ = (place(node) or "").partition(": ")[2].partition(" = ")
    variables = [name.strip() for name in targets.split(",")]
    is_plain = assigns and len(variables) == len(boundary.args[0]) and all(map(str.isidentifier, variables))
    return variables[i] if is_plain else boundary.name
