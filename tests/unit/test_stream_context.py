"""``anabranch.stream``: compiled, and its order in eager on CUDA, which is acted here."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import anabranch
from anabranch.dialect import stream_context
from tests.programs.harness import by_stream, message, run

X = torch.linspace(-1, 1, 8)


def test_an_id_may_change_between_calls():
    def program(x, i):
        with anabranch.stream(i):
            h = x.sin()
        return anabranch.join_stream(anabranch.fork_stream(h, source=i, target=i + 1).cos(), source=i + 1)

    torch.compiler.reset()
    compiled = torch.compile(program, backend="anabranch", fullgraph=True)
    with torch.no_grad():
        for i in (1, 2, 4):
            torch.testing.assert_close(compiled(X, i), X.sin().cos())
            assert by_stream(anabranch.last_report()).keys() == {i, i + 1}


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (lambda x: anabranch.fork_stream(x, 3), "fork_stream takes tensors only, but argument 1 is int: streams order"),
        (lambda x: anabranch.join_stream(x, source=-1), "join_stream: source = -1 is no stream id: write an int, 0 for"),
        (lambda x: anabranch.fork_stream(x, target=0), "source and target are both 0: leave it out, or name two streams"),
        (lambda x: anabranch.stream("1").__enter__(), "stream: id = '1' is no stream id: write an int, 0 for the caller's"),
    ],
    ids=["a non-tensor", "a negative id", "one side", "a text as id"],
)
def test_where_the_graph_may_not_break_the_message_is_still_seen(program, text):
    assert text in message(program, X)


def test_a_context_inside_a_checkpointed_function():
    def layer(x):
        with anabranch.stream(1):
            h = x.sin()
        return h + x

    report = run(lambda x: checkpoint(layer, x, use_reentrant=False) * 2, X, seeds=[0, 1])
    assert by_stream(report) == {1: [("sin",)], 0: [("add", "mul")]}


def test_a_checkpointed_function_inside_a_context():
    def layer(x):
        with anabranch.stream(2):
            h = x.sin()
        return h * 2

    def program(x):
        with anabranch.stream(1):
            h = checkpoint(layer, x, use_reentrant=False)
        return h + x

    assert by_stream(run(program, X, seeds=[0, 1])) == {2: [("sin",)], 1: [("mul",)], 0: [("add",)]}


def test_a_graph_break_inside_contexts():
    def program(x):
        with anabranch.stream(1):
            h = x.sin()
            with anabranch.stream(2):
                torch._dynamo.graph_break()
                g = h.cos()
        return g + h

    torch.compiler.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(program, backend="anabranch")(X), X.sin().cos() + X.sin())


class ActedStream:
    """Stands for a CUDA stream; says what waits for what."""

    def __init__(self, name: str, log: list):
        self.name, self.device, self._log = name, torch.device("cuda", 0), log

    def wait_stream(self, other: "ActedStream"):
        self._log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def cuda(monkeypatch):
    """Acts CUDA with a current stream ``main``; returns the log of waits and switches."""
    log, current = [], []
    current.append(ActedStream("main", log))

    def set_stream(stream):
        current[0] = stream
        log.append(f"to {stream.name}")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "set_stream", set_stream)
    monkeypatch.setattr(stream_context, "_pool_stream", lambda device, id: ActedStream(f"pool {id}", log))
    return log


def test_eager_waits_on_entry_and_joins_on_exit(cuda):
    with anabranch.stream(1):
        cuda.append("work")
    assert cuda == ["pool 1 waits for main", "to pool 1", "work", "to main", "main waits for pool 1"]


def test_eager_stream_0_is_the_outermost_current_stream(cuda):
    with anabranch.stream(1), anabranch.stream(0):
        cuda.append("work")
    assert cuda[2:6] == ["main waits for pool 1", "to main", "work", "to pool 1"]
    assert cuda[-2:] == ["to main", "main waits for pool 1"]


def test_eager_restores_the_stream_where_one_context_is_entered_twice_and_left_by_an_error(cuda):
    twice = anabranch.stream(1)
    with pytest.raises(ZeroDivisionError), twice, anabranch.stream(2), twice:
        raise ZeroDivisionError
    assert cuda[-6:] == [
        "to pool 2", "pool 2 waits for pool 1", "to pool 1", "pool 1 waits for pool 2", "to main", "main waits for pool 1",
    ]  # fmt: skip
