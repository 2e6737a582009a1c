"""What a user may write wrong, and what the message says: what was written, where, which rule, what to write instead."""

import pytest
import torch

import anabranch
from anabranch import fork_stream, join_stream
from anabranch.dialect.errors import NotATensor, SameStream, UnknownStream
from anabranch.runtime.backend import UnsupportedDevices
from anabranch.runtime.options import UnknownOption, WrongOption
from anabranch.runtime.report import NothingCompiled
from tests.programs.harness import message

X = torch.ones(4)


def test_operands_on_two_streams():
    def program(x):
        a = fork_stream(x, target=1).sin()
        b = fork_stream(x, target=2).cos()
        return a + b

    text = message(program, X)
    assert "StreamMix: 'add' uses 'sin' on stream 1 and 'cos' on stream 2, but an op runs on one stream" in text
    assert "write anabranch.fork_stream(sin, source=1, target=2) and use its result" in text
    assert "test_bad_programs.py:" in text and "return a + b" in text


def test_a_joined_and_an_unjoined_operand():
    def program(x):
        a = join_stream(fork_stream(x).sin())
        b = fork_stream(x).cos()
        return a + b

    text = message(program, X)
    assert "write anabranch.join_stream(cos, source=1, target=0) and use its result" in text


def test_a_source_that_contradicts_membership():
    def program(x):
        a = fork_stream(x, target=1).sin()
        return join_stream(a, source=2)

    text = message(program, X)
    assert "SourceContradiction: 'join_stream' takes 'sin' from stream 2, but 'sin' is on stream 1" in text
    assert "write source=1, or bring it to stream 2 first" in text
    assert "return join_stream(a, source=2)" in text


@pytest.mark.parametrize("id", [-1, 1.5, True, "1"])
def test_an_unknown_stream_id(id):
    with pytest.raises(UnknownStream, match=r"fork_stream: target = .* is no stream id: write an int, 0 for the caller's"):
        fork_stream(X, target=id)
    with pytest.raises(UnknownStream, match="join_stream: source"):
        join_stream(X, source=id)
    with pytest.raises(UnknownStream, match="stream: id"):
        anabranch.stream(id)


def test_a_fork_of_a_non_tensor():
    with pytest.raises(
        NotATensor, match="fork_stream takes tensors only, but argument 1 is int: .* pass other values around"
    ):
        fork_stream(X, 3)
    with pytest.raises(NotATensor, match="argument 0 is list"):
        fork_stream([X])
    with pytest.raises(NotATensor, match="argument 0 is nothing"):
        join_stream()


def test_a_fork_of_a_non_tensor_in_a_compiled_function():
    with pytest.raises(NotATensor, match="fork_stream takes tensors only, but argument 1 is int"):
        torch.compile(lambda x: fork_stream(x, 3), backend="anabranch")(X)


def test_a_crossing_with_one_side():
    with pytest.raises(SameStream, match="source and target are both 2: leave it out, or name two streams"):
        fork_stream(X, source=2, target=2)


def test_gradients():
    torch.compiler.reset()
    with pytest.raises(
        Exception, match=r"TrainingNotSupported: .* 1 of the inputs and parameters require gradients.*no_grad"
    ):
        torch.compile(lambda x: x.sin(), backend="anabranch")(torch.ones(4, requires_grad=True))


def test_a_device_that_is_neither_cuda_nor_the_cpu():
    torch.compiler.reset()
    with pytest.raises(Exception, match=f"{UnsupportedDevices.__name__}: the program's tensors are on meta: a compiled"):
        torch.compile(lambda x: x.sin(), backend="anabranch")(torch.ones(4, device="meta"))


def test_an_unknown_option():
    with pytest.raises(
        UnknownOption, match="no option 'dumpdir': did you mean 'dump_dir'.; its options are dump_dir, seed, cache"
    ):
        anabranch.compile(lambda x: x, dumpdir="/tmp")
    with pytest.raises(WrongOption, match="option 'seed' of backend 'anabranch' is '3': write an int"):
        anabranch.compile(lambda x: x, seed="3")


def test_a_report_before_anything_was_compiled(monkeypatch):
    from anabranch.runtime import report

    monkeypatch.setattr(report, "_LAST", [])
    with pytest.raises(NothingCompiled, match="there is no report yet"):
        anabranch.last_report()
