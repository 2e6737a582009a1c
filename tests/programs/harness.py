"""Runs a user's program on simulated streams in many orders and says what it did."""

from collections.abc import Callable

import torch

import anabranch
from anabranch.runtime.report import Report

# Even seeds run streams by priority, odd ones at random: see ``SimulatedRuntime``.
SEEDS = range(8)


def run(program: Callable, *inputs: torch.Tensor, seeds=SEEDS) -> Report:
    """Checks the compiled program's results against eager's under each seed; returns the report."""
    with torch.no_grad():
        expected = program(*(x.clone() for x in inputs))
        for seed in seeds:
            torch.compiler.reset()
            compiled = torch.compile(program, backend="anabranch", fullgraph=True, options={"seed": seed})
            torch.testing.assert_close(compiled(*(x.clone() for x in inputs)), expected)
    return anabranch.last_report()


def work(report: Report) -> list[tuple[int, tuple[str, ...]]]:
    """(stream, ATen ops without their namespace) of each launch and call, in host order."""
    return [(stream, tuple(op.removeprefix("aten.") for op in ops)) for stream, _, ops in report.launches]


def by_stream(report: Report) -> dict[int, list[tuple[str, ...]]]:
    """The work of each stream in order."""
    streams: dict[int, list[tuple[str, ...]]] = {}
    for stream, ops in work(report):
        streams.setdefault(stream, []).append(ops)
    return streams


def message(program: Callable, *inputs: torch.Tensor) -> str:
    """The message of the error that compiling ``program`` raises."""
    torch.compiler.reset()
    try:
        with torch.no_grad():
            torch.compile(program, backend="anabranch", fullgraph=True)(*inputs)
    except Exception as error:
        return str(error)
    raise AssertionError("nothing was refused")
