"""Random programs on random streams: values are eager's in every order, and each op runs where the program says."""

import random

import pytest
import torch

import anabranch
from anabranch import fork_stream, join_stream

STREAMS = 3
# Ops with names of their own, so that each can be found again in the report; mm is PyTorch's, the others become kernels.
UNARY = ["sin", "cos", "tanh", "sigmoid", "erf", "abs", "neg", "sinc"]


def steps(seed: int, count: int) -> list[tuple[int, str, list[int]]]:
    """(stream, op, operands) of each step; operands are numbers of values, of which 0 and 1 are the inputs."""
    rng = random.Random(seed)
    made = []
    stream = 0
    for i in range(count):
        # A program stays on a stream for a while.
        stream = rng.randrange(STREAMS) if rng.random() < 0.5 else stream
        op = rng.choice([*UNARY, "add", "mm"])
        arity = 1 if op in UNARY else 2
        made.append((stream, op, [rng.randrange(max(0, i - 4), i + 2) for _ in range(arity)]))
    return made


def results(values: list) -> tuple:
    return values[-1], values[-2], values[len(values) // 2]


def apply(op: str, operands: list[torch.Tensor]) -> torch.Tensor:
    if op == "mm":
        return operands[0] @ operands[1] / 8
    return torch.add(*operands) / 2 if op == "add" else getattr(torch, op)(operands[0])


def with_contexts(program):
    def run(x, w):
        values = [x, w]
        for stream, op, operands in program:
            with anabranch.stream(stream):
                values.append(apply(op, [values[i] for i in operands]))
        return results(values)

    return run


def with_ops(program):
    """The same program with each crossing written as a fork or join; stream 0 is where values end."""

    def move(value, source, target):
        if source == target:
            return value
        return join_stream(value, source=source) if target == 0 else fork_stream(value, source=source, target=target)

    def run(x, w):
        values, where = [x, w], [0, 0]
        for stream, op, operands in program:
            moved = [move(values[i], where[i], stream) for i in operands]
            values.append(apply(op, moved))
            where.append(stream)
        return results([move(value, stream, 0) for value, stream in zip(values, where)])

    return run


@pytest.mark.parametrize("style", [with_contexts, with_ops])
@pytest.mark.parametrize("seed", range(12))
def test_random_program(seed, style):
    program = steps(seed, count=18)
    torch.manual_seed(seed)
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    run = style(program)
    with torch.no_grad():
        expected = with_contexts(program)(x, w)
        for order in range(3):
            torch.compiler.reset()
            compiled = torch.compile(run, backend="anabranch", fullgraph=True, options={"seed": order})
            torch.testing.assert_close(compiled(x, w), expected)
    report = anabranch.last_report()
    assert report.access_pairs > 0
    allowed = {(stream, op) for stream, op, _ in program}
    for stream, name, ops in report.launches:
        for op in ops:
            op = op.removeprefix("aten.")
            # Halving and scaling belong to the step before; a copy hands a side stream's own memory to the caller.
            assert op in ("div", "alias", "clone") or (stream, op) in allowed or (stream, name) == (0, "aten.copy_"), (
                stream,
                op,
            )


def test_the_programs_differ_in_their_streams():
    assert all(len({stream for stream, _, _ in steps(seed, 18)}) > 1 for seed in range(20))
