"""A rewrite of the explicit graph that knows nothing of streams keeps every kernel on its stream."""

import torch
from torch.fx import GraphModule, Node

import anabranch
from anabranch.runtime import backend
from tests.programs.harness import by_stream, run

X = torch.linspace(-1, 1, 64).reshape(8, 8)


def decompose_softmax(gm: GraphModule) -> GraphModule:
    """One node becomes five; none of the new nodes gets any metadata but its value."""
    aten = torch.ops.aten
    for node in list(gm.graph.nodes):
        if node.target is not aten._softmax.default:
            continue
        x, dim, _ = node.args
        with gm.graph.inserting_before(node):
            call = lambda op, *args: _call(gm, op, *args)  # noqa: E731
            shifted = call(aten.sub.Tensor, x, call(aten.amax.default, x, [dim], True))
            powers = call(aten.exp.default, shifted)
            new = call(aten.div.Tensor, powers, call(aten.sum.dim_IntList, powers, [dim], True))
        node.replace_all_uses_with(new)
        gm.graph.erase_node(node)
    gm.recompile()
    return gm


def _call(gm: GraphModule, op, *args) -> Node:
    node = gm.graph.call_function(op, args)
    node.meta["val"] = op(*(a.meta["val"] if isinstance(a, Node) else a for a in args))
    return node


def program(x):
    with anabranch.stream(1):
        side = torch.softmax(x.sin(), -1)
    return side + x.cos()


def test_a_softmax_rewritten_into_several_nodes_stays_on_its_stream(monkeypatch):
    plain = run(program, X)
    assert by_stream(plain) == {1: [("sin", "_softmax")], 0: [("cos",), ("add",)]}
    explicit = backend.make_explicit
    monkeypatch.setattr(backend, "make_explicit", lambda gm: decompose_softmax(explicit(gm)))
    report = run(program, X)
    assert by_stream(report) == {1: [("sin", "amax", "sub", "exp", "sum", "div")], 0: [("cos",), ("add",)]}
    assert report.waits == plain.waits == [(1, 0), (0, 1)]


def test_a_softmax_in_pieces_and_one_in_one_both_stay_on_their_stream():
    def both(x):
        with anabranch.stream(1):
            y = x.sin()
            powers = (y - y.amax(-1, keepdim=True)).exp()
            pieces = powers / powers.sum(-1, keepdim=True)
            one = torch.softmax(y, -1)
        return pieces + 1, one

    report = run(both, X)
    side = [op for ops in by_stream(report)[1] for op in ops]
    assert sorted(side) == sorted(["sin", "amax", "sub", "exp", "sum", "div", "_softmax"])
    assert by_stream(report)[0] == [("add",)]
    assert report.waits == [(1, 0), (0, 1)]


def test_the_explicit_graph_speaks_of_streams_by_ops_alone(monkeypatch):
    graphs = []
    explicit = backend.make_explicit
    monkeypatch.setattr(backend, "make_explicit", lambda gm: graphs.append(explicit(gm)) or graphs[-1])
    run(program, X, seeds=[0])
    nodes = list(graphs[0].graph.nodes)
    assert not any("stream" in str(key) for node in nodes for key in (node.meta.get("custom") or {}))
    assert [str(n.target) for n in nodes if "anabranch" in str(n.target)] == [
        "anabranch.fork_stream.default",
        "anabranch.join_stream.default",
    ]
