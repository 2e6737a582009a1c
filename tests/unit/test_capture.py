"""How streams and their synchronizations leave Dynamo's graph.

Without CUDA there are no user streams to trace: Dynamo's graphs of such programs are built here by hand, as torch 2.13 and
2.11 write them; ``tests/cuda`` traces real ones.
"""

import pytest
import torch
from torch.fx import Graph, GraphModule

from anabranch.dialect import torch_compat
from anabranch.dialect.capture import capture
from anabranch.dialect.errors import UnsupportedSync, WrongDevice
from anabranch.dialect.stream_context import ENTER, EXIT, STREAM_KEY

X = torch.ones(4)
# Numbers that stand for objects in Dynamo's graph.
CURRENT, S, T, SAME_AS_S, EVENT = range(5)


class Stream(torch.Stream):
    """A stream that a CPU build can make, with a handle of our choice."""

    def __new__(cls, handle: int, device: str = "cpu"):
        return torch.Stream.__new__(cls, stream_id=handle, device_index=0, device_type=0)


@pytest.fixture
def objects(monkeypatch):
    """Makes the numbers above known, as Dynamo does while it compiles."""
    s, t = Stream(7), Stream(8)
    known = {CURRENT: Stream(0), S: s, T: t, SAME_AS_S: Stream(7), EVENT: torch.Event("cpu")}
    monkeypatch.setattr(torch_compat, "dynamo_object", known.get)
    monkeypatch.setattr(torch_compat, "is_current_stream", lambda number: number == CURRENT)
    return known


def graph_of(*steps) -> GraphModule:
    """Dynamo's graph of ``steps``: (op, stream's number or None) on the value before, or the arguments of a streams op."""
    graph = Graph()
    value = graph.placeholder("x")
    value.meta["example_value"] = X
    for step in steps:
        if callable(step[0]):
            value = graph.call_function(step[0], (value,))
            value.meta["example_value"] = X
            if step[1] is not None:
                value.meta["custom"] = {"stream": step[1]}
        else:
            graph.call_function(getattr(torch.ops.streams, step[0]), step[1:])
    graph.output((value,))
    return GraphModule({}, graph)


def keys(captured) -> list[int | None]:
    return [(n.meta.get("custom") or {}).get(STREAM_KEY) for n in captured.graph.graph.nodes if n.op == "call_function"]


def test_contexts_become_ids_and_synchronizations_go(objects):
    captured = capture(
        graph_of(
            ("wait_stream", S, CURRENT), (torch.sin, S), (torch.cos, T), (torch.exp, None), ("wait_stream", CURRENT, S)
        ),
        [X],
    )
    assert captured.streams == {0: "current", 1: "user", 2: "user"}
    assert captured.user_streams == {1: S, 2: T}
    assert keys(captured) == [1, 2, None]


def test_two_objects_with_one_handle_are_one_stream(objects):
    captured = capture(graph_of((torch.sin, S), (torch.cos, SAME_AS_S), (torch.exp, CURRENT)), [X])
    assert keys(captured) == [1, 1, 0]
    assert captured.streams == {0: "current", 1: "user"}


def test_a_stream_that_is_only_waited_for_is_ordered_with_the_call(objects):
    captured = capture(graph_of(("wait_stream", CURRENT, T), (torch.sin, None)), [X])
    assert captured.user_streams == {1: T}


def test_events_are_kept_at_the_ends_of_the_call(objects):
    waits = capture(graph_of(("wait_event", EVENT, CURRENT), (torch.sin, None), ("record_event", EVENT, CURRENT)), [X])
    assert (waits.entry_events, waits.exit_events) == ([EVENT], [EVENT])
    own = capture(
        graph_of((torch.sin, S), ("record_event", EVENT, S), ("wait_event", EVENT, CURRENT), (torch.cos, None)), [X]
    )
    assert (own.entry_events, own.exit_events) == ([], [EVENT])


def test_methods_of_streams_as_torch_2_11_writes_them(objects):
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = X
    lookup = lambda number: graph.call_function(torch._dynamo.graph_bytecode_inputs.get_external_object_by_index, (number,))  # noqa: E731
    s, t, event = lookup(S), lookup(T), lookup(EVENT)
    graph.call_method("wait_stream", (s, t))
    y = graph.call_function(torch.sin, (x,))
    y.meta |= {"custom": {"stream": S}, "example_value": X}
    graph.call_method("record_event", (s, event))
    graph.call_method("wait_event", (t, event))
    graph.output((y,))
    captured = capture(GraphModule({}, graph), [X])
    assert [n.op for n in captured.graph.graph.nodes] == ["placeholder", "call_function", "output"]
    assert (captured.entry_events, captured.exit_events) == ([], [EVENT])
    assert keys(captured) == [1]


def test_user_streams_get_ids_behind_the_pools(objects):
    gm = graph_of((torch.sin, None), (torch.cos, S))
    next(n for n in gm.graph.nodes if n.target is torch.sin).meta["custom"] = {STREAM_KEY: 3}
    captured = capture(gm, [X])
    assert captured.streams == {0: "current", 3: "pool", 4: "user"}


def test_a_host_wait_is_refused(objects):
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = X
    s = graph.call_function(torch._dynamo.graph_bytecode_inputs.get_external_object_by_index, (S,))
    graph.call_method("synchronize", (s,))
    graph.output((x,))
    with pytest.raises(UnsupportedSync, match="synchronize makes the host wait inside the compiled function"):
        capture(GraphModule({}, graph), [X])


@pytest.mark.skipif(not hasattr(torch.ops.streams, "synchronize_stream"), reason="an op only from torch 2.13 on")
def test_a_host_wait_that_is_an_op_is_refused(objects):
    with pytest.raises(UnsupportedSync, match="synchronize_stream makes the host wait inside the compiled function"):
        capture(graph_of((torch.sin, S), ("synchronize_stream", S)), [X])


def test_a_stream_of_another_device_is_refused(objects):
    with pytest.raises(
        WrongDevice, match=r"a stream of cpu:0 is used, but the program's tensors are on meta: use .* or anabranch.stream"
    ):
        gm = graph_of((torch.sin, S))
        for node in gm.graph.nodes:
            node.meta.pop("example_value", None)
        capture(gm, [torch.ones(4, device="meta")])


def test_of_both_kinds_of_context_the_inner_one_counts(objects):
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = X

    def step(op, *args, stream=None):
        node = graph.call_function(op, args)
        node.meta = {"example_value": X} | ({} if stream is None else {"custom": {"stream": stream}})
        return node

    step(ENTER, 2)
    a = step(torch.sin, x)
    b = step(torch.cos, a, stream=S)
    step(EXIT)
    c = step(torch.exp, b, stream=S)
    step(ENTER, 3, stream=S)
    d = step(torch.sin, c, stream=S)
    step(EXIT, stream=S)
    e = step(torch.cos, d, stream=S)
    graph.output((e,))
    captured = capture(GraphModule({}, graph), [X])
    assert captured.streams == {0: "current", 2: "pool", 3: "pool", 4: "user"}
    assert keys(captured) == [2, 4, 4, 3, 4]


def test_a_tensors_record_stream_as_torch_2_11_writes_it_goes(objects):
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = X
    s = graph.call_function(torch._dynamo.graph_bytecode_inputs.get_external_object_by_index, (S,))
    graph.call_method("record_stream", (x, s))
    graph.output((x,))
    captured = capture(GraphModule({}, graph), [X])
    assert [n.op for n in captured.graph.graph.nodes] == ["placeholder", "output"]
    assert captured.user_streams == {1: S}


def test_arguments_by_name_and_symbols_of_ids_become_numbers(objects):
    graph = Graph()
    x, i = graph.placeholder("x"), graph.placeholder("i")
    x.meta["example_value"], i.meta["example_value"] = X, 2
    fork = graph.call_function(torch.ops.anabranch.fork_stream.default, ([x],), {"target": i, "source": 0})
    graph.output((fork,))
    captured = capture(GraphModule({}, graph), [X])
    assert fork.args == ([x], 0, 2) and not fork.kwargs
    assert captured.streams == {0: "current", 2: "pool"}
