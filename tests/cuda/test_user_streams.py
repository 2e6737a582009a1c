"""Programs with ``torch.cuda.stream`` and its synchronizations, as they are written for eager."""

import json

import pytest
import torch

import anabranch
from anabranch.dialect.errors import UnsupportedSync, WrongDevice

CYCLES = 10_000_000


def compiled(program):
    torch.compiler.reset()
    return torch.compile(program, backend="anabranch")


@pytest.fixture
def x():
    return torch.randn(64, 64, device="cuda")


@pytest.fixture
def s():
    return torch.cuda.Stream()


def check(program, *inputs, calls: int = 3):
    """That compiled results are eager's, the host having waited for neither."""
    with torch.no_grad():
        function = compiled(program)
        for _ in range(calls):
            expected = program(*inputs)
            torch.cuda.synchronize()
            torch.testing.assert_close(function(*inputs), expected)
    return anabranch.last_report()


def test_fork_and_join_by_wait_stream(x, s):
    def program(x):
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            h = torch.softmax(x @ x, -1)
        y = x.relu()
        torch.cuda.current_stream().wait_stream(s)
        return h + y

    report = check(program, x)
    streams = {ops: stream for stream, _, ops in report.launches}
    assert report.streams == {0: "current", 1: "user"}
    assert streams["aten.mm",] == streams["aten._softmax",] == 1
    assert streams["aten.relu",] == streams["aten.add",] == 0


def test_a_missing_wait_is_added(x, s):
    """What eager races on, data flow orders."""

    def program(x):
        with torch.cuda.stream(s):
            h = (x @ x).tanh()
        return h + x

    with torch.no_grad():
        function = compiled(program)
        for _ in range(3):
            torch.testing.assert_close(function(x), (x @ x).tanh() + x)
    assert (0, 1) in anabranch.last_report().waits


def test_two_streams_and_events(x, s):
    t = torch.cuda.Stream()
    ready = torch.cuda.Event()

    def program(x):
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            h = x.sin()
            ready.record(s)
        with torch.cuda.stream(t):
            ready.wait(t)
            g = h.cos()
        torch.cuda.current_stream().wait_stream(t)
        return g + x

    report = check(program, x)
    streams = {ops: stream for stream, _, ops in report.launches}
    assert streams["aten.sin",] != streams["aten.cos",]
    assert 0 not in (streams["aten.sin",], streams["aten.cos",])


def test_nested_contexts(x, s):
    t = torch.cuda.Stream()

    def program(x):
        s.wait_stream(torch.cuda.current_stream())
        t.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            a = x.sin()
            with torch.cuda.stream(t):
                b = x.cos()
            c = a.exp()
        torch.cuda.current_stream().wait_stream(s)
        torch.cuda.current_stream().wait_stream(t)
        return b + c

    report = check(program, x)
    streams = {op: stream for stream, _, ops in report.launches for op in ops}
    assert streams["aten.sin"] == streams["aten.exp"] != streams["aten.cos"]


def test_earlier_work_on_the_users_stream_is_waited_for(x, s):
    """The caller fills a buffer on its own stream, slowly, and the program's wait for it is inside the function."""
    buffer = torch.zeros(64, 64, device="cuda")

    def program(x, buffer):
        torch.cuda.current_stream().wait_stream(s)
        with torch.cuda.stream(s):
            h = x.relu()
        torch.cuda.current_stream().wait_stream(s)
        return buffer + h

    with torch.no_grad():
        function = compiled(program)
        function(x, buffer)
        for i in range(3):
            torch.cuda.synchronize()
            with torch.cuda.stream(s):
                torch.cuda._sleep(CYCLES)
                buffer.fill_(i)
            torch.testing.assert_close(function(x, buffer), x.relu() + i)


def test_later_work_on_the_users_stream_comes_after_the_call(x, s):
    def program(x):
        y = x
        for _ in range(20):
            y = torch.softmax(y @ x, -1)
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            h = x.relu()
        return y, h

    with torch.no_grad():
        function = compiled(program)
        expected, _ = program(x)
        torch.cuda.synchronize()
        for _ in range(3):
            y, _ = function(x)
            with torch.cuda.stream(s):
                copy = y.clone()
            s.synchronize()
            torch.testing.assert_close(copy, expected)


def test_a_host_wait_inside_is_refused_or_breaks_the_graph(x, s):
    def program(x):
        with torch.cuda.stream(s):
            h = x.relu()
        s.synchronize()
        return h + 1

    with torch.no_grad():
        try:
            result = compiled(program)(x)
        except Exception as error:
            assert UnsupportedSync.__name__ in str(error) and "move it out of the function" in str(error)
        else:
            torch.testing.assert_close(result, x.relu() + 1)


def test_a_stream_of_another_device_is_refused(x):
    cpu_only = torch.randn(4)
    stream = torch.cuda.Stream()

    def program(y):
        with torch.cuda.stream(stream):
            return y.relu()

    with pytest.raises(
        Exception, match=f"(?s){WrongDevice.__name__}.*a stream of cuda:0 is used, but the program's tensors are on cpu"
    ):
        compiled(program)(cpu_only)


def test_kernels_of_two_streams_overlap_in_a_profilers_trace(tmp_path):
    def program(x, v, w):
        with anabranch.stream(1):
            side = x
            for _ in range(4):
                side = torch.softmax(side @ w, dim=-1)
        for _ in range(4):
            v = torch.relu(v @ w)
        return side + v

    # Each product takes longer than the host needs to launch the next, and leaves half of a large GPU to the other stream.
    x, v, w = (torch.randn(n, 4096, device="cuda") / 64 for n in (256, 256, 4096))
    with torch.no_grad():
        function = compiled(program)
        torch.testing.assert_close(function(x, v, w), program(x, v, w), rtol=1e-3, atol=1e-3)
        torch.cuda.synchronize()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as trace:
            for _ in range(5):
                function(x, v, w)
            torch.cuda.synchronize()
    trace.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [(e["args"]["stream"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "kernel"]
    assert len({stream for stream, _, _ in spans}) == 2
    assert any(a[0] != b[0] and a[1] < b[2] and b[1] < a[2] for a in spans for b in spans)
