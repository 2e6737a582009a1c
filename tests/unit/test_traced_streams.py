"""User streams as Dynamo traces them: its frontend runs on CPU streams, where it is told that the CPU is an accelerator."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from anabranch.dialect import torch_compat
from anabranch.dialect.capture import Captured, capture
from anabranch.dialect.errors import UnsupportedSync
from anabranch.dialect.explicit import make_explicit
from anabranch.dialect.torch_ops import FORK, JOIN

# Earlier versions write methods of streams, which CPU streams do not have; ``tests/cuda`` traces those.
pytestmark = pytest.mark.skipif(
    torch_compat._CURRENT_STREAM_INDEX is None or torch.cuda.is_available(), reason="for torch 2.13 on, on a CPU"
)
X = torch.ones(4)


def stream(handle: int) -> torch.Stream:
    return torch.Stream(stream_id=handle, device_index=0, device_type=0)


MAIN, S, T = stream(0), stream(7), stream(8)
EVENT = torch.Event("cpu")


@pytest.fixture(autouse=True)
def accelerator(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device=None: MAIN)


def trace(program, *inputs) -> tuple[Captured, list[tuple]]:
    """What is captured of ``program``, and the boundaries of its explicit graph: op, ids and the values' ops."""
    found = []

    def backend(gm, example_inputs):
        captured = capture(gm, example_inputs)

        def compiler(aot, _):
            calls = [n for n in make_explicit(aot).graph.nodes if n.target in (FORK, JOIN)]
            found.append((captured, [(n.target, *n.args[1:], *(x.name for x in n.args[0])) for n in calls]))
            return aot.forward

        return torch_compat.inference_backend(compiler)(captured.graph, example_inputs)

    torch.compiler.reset()
    with torch.no_grad():
        torch.compile(program, backend=backend, fullgraph=True)(*inputs)
    (only,) = found
    return only


def test_nested_and_sibling_contexts():
    def program(x):
        S.wait_stream(T)
        with S:
            h = x.sin()
        with T:
            g = h.cos()
            with S:
                g = g.exp()
            g = g.tan()
        return g + x

    captured, boundaries = trace(program, X)
    assert captured.streams == {0: "current", 1: "user", 2: "user"}
    assert boundaries == [
        (FORK, 0, 1, "arg0_1"),
        (FORK, 1, 2, "sin"),
        (FORK, 2, 1, "cos"),
        (FORK, 1, 2, "exp"),
        (JOIN, 2, 0, "tan"),
    ]


def test_events_outlive_the_call():
    def program(x):
        EVENT.wait(S)
        with S:
            h = x.sin()
        EVENT.record(S)
        return h

    captured, _ = trace(program, X)
    assert captured.entry_events == captured.exit_events != []
    assert len(captured.user_streams) == 1


def test_a_stream_object_that_is_current_only_now_is_a_stream_of_its_own():
    def program(x):
        with MAIN:
            return x.sin()

    captured, boundaries = trace(program, X)
    assert captured.streams == {0: "current", 1: "user"}
    assert boundaries == [(FORK, 0, 1, "arg0_1"), (JOIN, 1, 0, "sin")]


def test_an_input_may_be_mutated_on_a_side_stream():
    def program(x):
        with S:
            x.add_(1)
        return x * 2

    x = X.clone()
    _, boundaries = trace(program, x)
    assert torch.equal(x, X + 1)
    assert boundaries == [(FORK, 0, 1, "arg0_1"), (JOIN, 1, 0, "add")]


def test_contexts_and_waits_inside_a_checkpointed_function():
    def layer(x):
        S.wait_stream(T)
        with S:
            h = x.sin()
        return h + x

    captured, boundaries = trace(lambda x: checkpoint(layer, x, use_reentrant=False), X)
    assert captured.streams == {0: "current", 1: "user", 2: "user"}
    assert boundaries == [(FORK, 0, 1, "arg0_1"), (JOIN, 1, 0, "sin")]


def test_waits_inside_a_branch_go():
    def branch(x):
        S.wait_stream(T)
        with S:
            return x.sin()

    captured, _ = trace(lambda x: torch.cond(x.sum() > 0, branch, torch.cos, (x,)), X)
    assert len(captured.user_streams) == 2


@pytest.mark.parametrize("waited_for", [S, EVENT], ids=["stream", "event"])
def test_a_host_wait_is_refused_with_its_line(waited_for):
    def program(x):
        with S:
            h = x.sin()
        waited_for.synchronize()
        return h

    with pytest.raises(Exception, match=f"(?s){UnsupportedSync.__name__}: synchronize.*waited_for.synchronize()"):
        trace(program, X)
