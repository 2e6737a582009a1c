"""What the runtime promises on real streams: order, freshness of results, and no wait of the host."""

import threading

import pytest
import torch

import anabranch

# Long enough that a missing wait loses: some milliseconds.
CYCLES = 10_000_000


@torch.library.custom_op("anabranch_tests::slow", mutates_args=())
def slow(x: torch.Tensor) -> torch.Tensor:
    """A copy of ``x`` that takes milliseconds on its stream."""
    torch.cuda._sleep(CYCLES)
    return x.clone()


@slow.register_fake
def _(x):
    return torch.empty_like(x)


def slow_side(x):
    with anabranch.stream(1):
        h = slow(x).relu() * 2
    return h + x.sin()


def slow_main(x):
    y = slow(x) + 1
    with anabranch.stream(1):
        h = y.exp().sum(-1, keepdim=True)
    return h + y


def both_slow(x):
    with anabranch.stream(1):
        a = slow(x) + 1
    with anabranch.stream(2):
        b = slow(a) * 3
    return slow(x) + b


@pytest.fixture
def x():
    return torch.randn(64, 64, device="cuda")


@pytest.mark.parametrize("program", [slow_side, slow_main, both_slow])
def test_a_slow_branch_is_waited_for(program, x):
    with torch.no_grad():
        compiled = anabranch.compile(program)
        for _ in range(5):
            x.normal_()
            torch.testing.assert_close(compiled(x), program(x))


def test_the_callers_stream_counts_at_each_call(x):
    compiled = anabranch.compile(slow_side)
    expected = slow_side(x)
    torch.cuda.synchronize()
    with torch.no_grad():
        compiled(x)
        for _ in range(3):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                # Made on the caller's stream just before, after a delay: the call has to come after it.
                torch.cuda._sleep(CYCLES)
                late = x.clone()
                result = compiled(late)
                # And what comes next on that stream after the call.
                total = result.sum()
            stream.synchronize()
            torch.testing.assert_close(total, expected.sum())


def test_the_current_stream_is_the_callers_again_after_a_call(x):
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        anabranch.compile(slow_side)(x)
        assert torch.cuda.current_stream() == stream


def test_a_returned_tensor_never_changes(x):
    with torch.no_grad():
        compiled = anabranch.compile(slow_side)
        first = compiled(x)
        torch.cuda.synchronize()
        kept = first.clone()
        for _ in range(5):
            compiled(x + 1)
        torch.cuda.synchronize()
        assert torch.equal(first, kept)


def test_two_threads_call_at_once(x):
    compiled = anabranch.compile(both_slow)
    inputs = [x + i for i in range(4)]
    with torch.no_grad():
        expected = [both_slow(i) for i in inputs]
        compiled(x)
    torch.cuda.synchronize()
    wrong = []

    def work(i: int) -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(10):
                result = compiled(inputs[i])
                torch.cuda.current_stream().synchronize()
                if not torch.allclose(result, expected[i]):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_of_a_side_stream_is_not_reused_before_its_reader_is_done(x):
    """An op that allocates on the side stream, read on the caller's after a delay, while the next calls allocate again."""

    def program(x):
        with anabranch.stream(1):
            h = slow(x) + 0
            h = slow(h)
        return slow(x) + h

    with torch.no_grad():
        compiled = anabranch.compile(program)
        compiled(x)
        inputs = [x + i for i in range(8)]
        torch.cuda.synchronize()
        results = [compiled(i) for i in inputs]
        torch.cuda.synchronize()
        for i, result in zip(inputs, results):
            torch.testing.assert_close(result, i + i)


def test_the_host_does_not_wait(x):
    with torch.no_grad():
        compiled = anabranch.compile(both_slow)
        compiled(x)
        torch.cuda.synchronize()
        done = torch.cuda.Event()
        torch.cuda.set_sync_debug_mode("error")
        try:
            compiled(x)
            done.record()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        # Three sleeps of milliseconds are still to run.
        assert not done.query()
        done.synchronize()


def test_a_call_can_be_captured_in_the_callers_graph(x):
    def program(x):
        with anabranch.stream(1):
            h = torch.softmax(x @ x, -1)
        return h + x.relu()

    with torch.no_grad():
        compiled = anabranch.compile(program)
        compiled(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = compiled(x)
        for _ in range(3):
            x.normal_()
            graph.replay()
            torch.testing.assert_close(result, program(x))


def test_an_input_that_the_program_writes_is_written_after_all_side_work(x):
    def program(x):
        with anabranch.stream(1):
            h = slow(x) * 2
        x.add_(1)
        return h

    with torch.no_grad():
        mine, theirs = x.clone(), x.clone()
        torch.testing.assert_close(anabranch.compile(program)(mine), program(theirs))
        torch.testing.assert_close(mine, theirs)
