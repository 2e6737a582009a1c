"""The programs of ``tests/programs`` on real streams, and as they are written with ``torch.cuda.stream``.

Each runs with one of its streams after the other delayed before each piece of work: a missing wait then loses its race.
"""

from functools import partial

import pytest
import torch

import anabranch
from anabranch.runtime import plan
from anabranch.runtime.cuda import CudaRuntime
from anabranch.runtime.report import Report
from tests.programs import test_programs as programs
from tests.programs.harness import by_stream
from tests.programs.harness import run as run_simulated

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

# Milliseconds, where the work itself takes microseconds.
CYCLES = 10_000_000


class Delayed(CudaRuntime):
    """A runtime that delays each piece of work of stream ``slow``."""

    def __init__(self, slow, *args):
        super().__init__(*args)
        self._slow = slow

    def launch(self, stream, *args, **kwargs):
        self._delay(stream)
        super().launch(stream, *args, **kwargs)

    def call(self, stream, *args, **kwargs):
        self._delay(stream)
        super().call(stream, *args, **kwargs)

    def call_new(self, stream, *args, **kwargs):
        self._delay(stream)
        return super().call_new(stream, *args, **kwargs)

    def _delay(self, stream):
        if stream == self.stream(self._slow):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(CYCLES)


class WithoutWaits(Delayed):
    """And that forgets every wait."""

    def wait(self, stream, event):
        pass


def inputs(count: int) -> list[torch.Tensor]:
    """New values at each call: what an earlier one left in memory is wrong."""
    return [torch.randn(64, 64, device="cuda") / 8 for _ in range(count)]


def run(program, count: int, monkeypatch) -> Report:
    """Checks the compiled program's results against eager's with each stream delayed in turn; returns the report."""
    torch.compiler.reset()
    with torch.no_grad():
        compiled = torch.compile(program, backend="anabranch", fullgraph=True)
        compiled(*inputs(count))
        report = anabranch.last_report()
        for slow in report.streams:
            for _ in range(2):
                values = inputs(count)
                expected = program(*values)
                torch.cuda.synchronize()
                with monkeypatch.context() as patch:
                    patch.setattr(plan, "CudaRuntime", partial(Delayed, slow))
                    result = compiled(*values)
                # Read on the caller's stream, at once.
                copy = torch.utils._pytree.tree_map(torch.clone, result)
                torch.cuda.synchronize()
                torch.testing.assert_close(copy, expected)
    return report


POOL_PROGRAMS = {
    name: 2 if "branches" in name or "product" in name else 1
    for name in sorted(vars(programs))
    if name.endswith(("_ops", "_context"))
}


def test_there_are_programs():
    assert len(POOL_PROGRAMS) >= 16


@pytest.mark.parametrize("name", POOL_PROGRAMS)
def test_a_program_with_a_slow_stream(name, monkeypatch):
    program, count = getattr(programs, name), POOL_PROGRAMS[name]
    report = run(program, count, monkeypatch)
    # Its streams and waits, which ``test_programs`` spells out, do not depend on the device.
    simulated = run_simulated(program, *(x.cpu() for x in inputs(count)), seeds=[0])
    assert by_stream(report) == by_stream(simulated)
    assert (report.streams, report.waits) == (simulated.streams, simulated.waits)


@pytest.mark.parametrize("slow", [0, 1])
def test_without_its_waits_a_program_loses_the_race(slow, monkeypatch):
    """That the delays find what they are for: the caller's stream is early for the result, or the side for its input."""

    def program(x):
        y = x * 2
        with anabranch.stream(1):
            h = y.exp()
        return h + y

    torch.compiler.reset()
    with torch.no_grad():
        compiled = torch.compile(program, backend="anabranch")
        compiled(*inputs(1))
        (x,) = inputs(1)
        expected = program(x)
        torch.cuda.synchronize()
        monkeypatch.setattr(plan, "CudaRuntime", partial(WithoutWaits, slow))
        result = compiled(x)
        torch.cuda.synchronize()
        assert not torch.allclose(result, expected)


def s_and_t() -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    """Two different streams: PyTorch deals them from a pool, so only streams made one after the other surely differ."""
    return torch.cuda.Stream(), torch.cuda.Stream()


def fork(*streams):
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())


def join(*streams):
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)


def two_branches(s, t):
    def program(x, w):
        fork(s)
        with torch.cuda.stream(s):
            side = torch.softmax(x @ w, -1)
        main = x.relu() + 1
        join(s)
        return side * main

    return program


def diamond(s, t):
    def program(x):
        top = x.sin()
        fork(s, t)
        with torch.cuda.stream(s):
            left = top.exp()
        with torch.cuda.stream(t):
            right = top.cos()
        join(s, t)
        return left + right

    return program


def nested(s, t):
    def program(x):
        fork(s)
        with torch.cuda.stream(s):
            a = x.sin()
            t.wait_stream(s)
            with torch.cuda.stream(t):
                b = a.cos()
            s.wait_stream(t)
            c = b * a
        join(s)
        return c + x

    return program


def siblings(s, t):
    def program(x):
        fork(s, t)
        with torch.cuda.stream(s):
            a = x.sin()
        with torch.cuda.stream(t):
            b = x.cos()
        join(s, t)
        return a, b

    return program


def join_into_product(s, t):
    def program(x, w):
        fork(s)
        with torch.cuda.stream(s):
            side = x.exp()
        join(s)
        return side @ w + x

    return program


def unjoined(s, t):
    def program(x):
        fork(s)
        with torch.cuda.stream(s):
            result = x.exp()
        join(s)
        return result

    return program


def one_fork_two_regions(s, t):
    def program(x):
        fork(s)
        with torch.cuda.stream(s):
            a = x.sin()
        join(s)
        middle = a * 2
        fork(s)
        with torch.cuda.stream(s):
            b = x.cos() * middle
        join(s)
        return b + middle

    return program


# With the caller's own streams, the call waits for what is already on them, and they for the call: hence the first waits of
# the caller's stream and the last for it. In between are those that data flow asks for.
@pytest.mark.parametrize(
    "make, count, work, waits",
    [
        (
            two_branches,
            2,
            {1: [("mm",), ("_softmax",)], 0: [("relu", "add"), ("mul",)]},
            [(0, 1), (1, 0), (0, 1), (1, 0)],
        ),
        (
            diamond,
            1,
            {0: [("sin",), ("add",)], 1: [("exp",)], 2: [("cos",)]},
            [(0, 1), (0, 2), (1, 0), (2, 0), (0, 1), (0, 2), (1, 0), (2, 0)],
        ),
        (
            nested,
            1,
            {1: [("sin",), ("mul",)], 2: [("cos",)], 0: [("add",)]},
            [(0, 1), (0, 2), (1, 0), (2, 1), (1, 2), (0, 1), (1, 0), (2, 0)],
        ),
        (
            siblings,
            1,
            {1: [("sin",)], 2: [("cos",)]},
            [(0, 1), (0, 2), (1, 0), (2, 0), (0, 1), (0, 2), (1, 0), (2, 0)],
        ),
        (
            join_into_product,
            2,
            {1: [("exp",)], 0: [("mm",), ("add",)]},
            [(0, 1), (1, 0), (0, 1), (1, 0)],
        ),
        # The side stream knows all that the caller's has done: nothing is left to wait for at the end.
        (unjoined, 1, {1: [("exp",)]}, [(0, 1), (1, 0), (0, 1)]),
        (
            one_fork_two_regions,
            1,
            {1: [("sin",), ("cos",), ("mul",)], 0: [("mul",), ("add",)]},
            [(0, 1), (1, 0), (0, 1), (1, 0), (0, 1), (1, 0)],
        ),
    ],
)
def test_a_program_with_the_callers_streams(make, count, work, waits, monkeypatch):
    report = run(make(*s_and_t()), count, monkeypatch)
    assert report.streams == {0: "current"} | {i: "user" for i in work if i != 0}
    assert by_stream(report) == work
    assert report.waits == waits


def test_an_empty_region_of_the_callers_stream(monkeypatch):
    s, _ = s_and_t()

    def program(x):
        fork(s)
        with torch.cuda.stream(s):
            pass
        join(s)
        return x + 1

    report = run(program, 1, monkeypatch)
    assert by_stream(report) == {0: [("add",)]}


@pytest.mark.parametrize("ops", [True, False])
def test_parameters_in_a_side_region(ops, monkeypatch):
    model = programs.Parameters(ops).requires_grad_(False)
    model.side, model.main = (torch.nn.Linear(64, 64, device="cuda").requires_grad_(False) for _ in range(2))
    report = run(model, 1, monkeypatch)
    assert by_stream(report) == {1: [("addmm",), ("tanh",)], 0: [("addmm",), ("add",)]}
    assert report.waits == [(1, 0), (0, 1)]
