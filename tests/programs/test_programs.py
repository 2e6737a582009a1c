"""Whole programs in both ways to write them: values under adversarial orders, the stream of each kernel, and the waits."""

import pytest
import torch
import torch.nn.functional as F

import anabranch
from anabranch import fork_stream, join_stream
from tests.programs.harness import by_stream, run

X = torch.linspace(-1, 1, 64).reshape(8, 8)
W = torch.linspace(1, -1, 64).reshape(8, 8)


def two_branches_ops(x, w):
    x1, w1 = fork_stream(x, w)
    side = torch.softmax(x1 @ w1, -1)
    main = x.relu() + 1
    return join_stream(side) * main


def two_branches_context(x, w):
    with anabranch.stream(1):
        side = torch.softmax(x @ w, -1)
    main = x.relu() + 1
    return side * main


@pytest.mark.parametrize("program", [two_branches_ops, two_branches_context])
def test_two_branches(program):
    report = run(program, X, W)
    assert by_stream(report) == {1: [("mm",), ("_softmax",)], 0: [("relu", "add"), ("mul",)]}
    # The side stream waits for the call's entry, the caller's for the side work: nothing else.
    assert report.waits == [(1, 0), (0, 1)]


def diamond_ops(x):
    top = x.sin()
    left = fork_stream(top, target=1).exp()
    right = fork_stream(top, target=2).cos()
    return join_stream(left, source=1) + join_stream(right, source=2)


def diamond_context(x):
    top = x.sin()
    with anabranch.stream(1):
        left = top.exp()
    with anabranch.stream(2):
        right = top.cos()
    return left + right


@pytest.mark.parametrize("program", [diamond_ops, diamond_context])
def test_diamond(program):
    report = run(program, X)
    assert by_stream(report) == {0: [("sin",), ("add",)], 1: [("exp",)], 2: [("cos",)]}
    # The wait for what the top makes covers the one for the entry.
    assert sorted(report.waits) == [(0, 1), (0, 2), (1, 0), (2, 0)]


def nested_ops(x):
    a = fork_stream(x, target=1).sin()
    b = fork_stream(a, source=1, target=2).cos()
    c = join_stream(b, source=2, target=1) * a
    return join_stream(c, source=1) + x


def nested_context(x):
    with anabranch.stream(1):
        a = x.sin()
        with anabranch.stream(2):
            b = a.cos()
        c = b * a
    return c + x


@pytest.mark.parametrize("program", [nested_ops, nested_context])
def test_nested(program):
    report = run(program, X)
    assert by_stream(report) == {1: [("sin",), ("mul",)], 2: [("cos",)], 0: [("add",)]}
    assert report.waits == [(1, 0), (2, 1), (1, 2), (0, 1)]


def siblings_ops(x):
    h = [fork_stream(x, target=i) for i in (1, 2, 3)]
    h = [h[0].sin(), h[1].cos(), h[2].exp()]
    return tuple(join_stream(y, source=i) for i, y in enumerate(h, 1))


def siblings_context(x):
    with anabranch.stream(1):
        a = x.sin()
    with anabranch.stream(2):
        b = x.cos()
    with anabranch.stream(3):
        c = x.exp()
    return a, b, c


@pytest.mark.parametrize("program", [siblings_ops, siblings_context])
def test_sibling_streams(program):
    report = run(program, X)
    assert by_stream(report) == {1: [("sin",)], 2: [("cos",)], 3: [("exp",)]}
    assert sorted(report.waits) == [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)]


class Parameters(torch.nn.Module):
    def __init__(self, ops: bool):
        super().__init__()
        torch.manual_seed(0)
        self.side, self.main = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.ops = ops

    def forward(self, x):
        if self.ops:
            # Parameters float: they are wherever they are used, and need no fork.
            h = join_stream(self.side(fork_stream(x)).tanh())
        else:
            with anabranch.stream(1):
                h = self.side(x).tanh()
        return h + self.main(x)


@pytest.mark.parametrize("ops", [True, False])
def test_parameters_in_a_side_region(ops):
    report = run(Parameters(ops).requires_grad_(False), X)
    assert by_stream(report) == {1: [("addmm",), ("tanh",)], 0: [("addmm",), ("add",)]}
    assert report.waits == [(1, 0), (0, 1)]


def join_into_product_ops(x, w):
    side = join_stream(fork_stream(x).exp())
    return side @ w + x


def join_into_product_context(x, w):
    with anabranch.stream(1):
        side = x.exp()
    return side @ w + x


@pytest.mark.parametrize("program", [join_into_product_ops, join_into_product_context])
def test_a_join_that_feeds_a_product_and_a_sum(program):
    """A rewrite to one addmm would have to keep both on the caller's stream, after the wait."""
    report = run(program, X, W)
    assert by_stream(report) == {1: [("exp",)], 0: [("mm",), ("add",)]}
    assert report.waits == [(1, 0), (0, 1)]


def unjoined_ops(x):
    return fork_stream(x).exp()


def unjoined_context(x):
    with anabranch.stream(1):
        return x.exp()


@pytest.mark.parametrize("program", [unjoined_ops, unjoined_context])
def test_an_unjoined_output_is_joined(program):
    report = run(program, X)
    assert by_stream(report) == {1: [("exp",)]}
    assert report.waits == [(1, 0), (0, 1)]


def empty_ops(x):
    return join_stream(fork_stream(x)) + 1


def empty_context(x):
    with anabranch.stream(1):
        pass
    return x + 1


@pytest.mark.parametrize("program", [empty_ops, empty_context])
def test_an_empty_region_costs_nothing(program):
    report = run(program, X)
    assert by_stream(report) == {0: [("add",)]}
    assert report.waits == []


def one_fork_two_regions_ops(x):
    x1 = fork_stream(x)
    a = join_stream(x1.sin())
    middle = a * 2
    b = x1.cos() * fork_stream(middle)
    return join_stream(b) + middle


def one_fork_two_regions_context(x):
    with anabranch.stream(1):
        a = x.sin()
    middle = a * 2
    with anabranch.stream(1):
        b = x.cos() * middle
    return b + middle


@pytest.mark.parametrize("program", [one_fork_two_regions_ops, one_fork_two_regions_context])
def test_one_fork_feeds_two_regions(program):
    report = run(program, X)
    assert by_stream(report)[0] == [("mul",), ("add",)]
    assert sum(by_stream(report)[1], ()) == ("sin", "cos", "mul")
    assert report.waits == [(1, 0), (0, 1), (1, 0), (0, 1)]


def test_a_result_in_place_does_not_change_the_operand():
    def program(x):
        y = fork_stream(x)
        y.add_(1)
        return join_stream(y), x * 2

    report = run(program, X)
    assert {stream for stream, _, _ in report.launches} == {0, 1}


def test_an_input_written_on_a_side_stream_is_written_back():
    def program(x):
        with anabranch.stream(1):
            x.mul_(2)
        return x + 1

    mine, theirs = X.clone(), X.clone()
    with torch.no_grad():
        torch.compiler.reset()
        torch.testing.assert_close(torch.compile(program, backend="anabranch")(mine), program(theirs))
    torch.testing.assert_close(mine, theirs)


def test_the_same_expression_on_two_streams_stays_two():
    def program(x, w):
        with anabranch.stream(1):
            a = x @ w
        return a + (x @ w).sin()

    report = run(program, X, W)
    assert by_stream(report) == {1: [("mm",)], 0: [("mm",), ("sin",), ("add",)]}


def test_ops_that_no_kernel_computes_run_on_their_regions_stream():
    def program(x, w):
        with anabranch.stream(1):
            values, indices = torch.topk(x @ w, 3)
            parts = torch.chunk(torch.sort(x, -1)[0], 2)
        return values, indices, parts, F.pad(x, (1, 1)), x.cumsum(0)

    report = run(program, X, W)
    assert {op for ops in by_stream(report)[1] for op in ops} == {"mm", "topk", "sort"}
    assert {op for ops in by_stream(report)[0] for op in ops} >= {"constant_pad_nd", "cumsum"}


def test_a_higher_order_op_runs_on_its_regions_stream():
    def program(x):
        with anabranch.stream(1):
            h, g = torch.cond(x.sum() > 0, lambda x: (x.sin(), x + 1), lambda x: (x.cos(), x - 1), (x,))
        return h + x, g

    for x in (X + 1, X - 1):
        report = run(program, x)
        (stream,) = {stream for stream, name, _ in report.launches if "cond" in name}
        assert stream == 1


@torch.library.custom_op("anabranch_tests::increment", mutates_args=("x",))
def increment(x: torch.Tensor) -> None:
    x.add_(1)


def test_an_op_that_writes_its_argument_runs_on_its_regions_stream():
    def program(x):
        y = x.sin()
        with anabranch.stream(1):
            increment(y)
        return y * 2, x

    report = run(program, X)
    (stream,) = {stream for stream, name, _ in report.launches if "functionalized" in name}
    assert stream == 1


def test_other_shapes_get_plans_of_their_own():
    def program(x):
        with anabranch.stream(1):
            h = torch.softmax(x, -1)
        return h + x

    torch.compiler.reset()
    compiled = torch.compile(program, backend="anabranch")
    with torch.no_grad():
        for rows in (4, 5, 6, 5):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x), program(x))


def test_a_graph_break_inside_a_context_gives_right_results():
    def program(x):
        with anabranch.stream(1):
            a = x.sin()
            torch._dynamo.graph_break()
            b = a.cos()
        return b + x

    torch.compiler.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(program, backend="anabranch")(X), program(X))


def test_numbers_and_none_are_returned_as_they_are():
    def program(x):
        with anabranch.stream(1):
            h = x.sin()
        return h, 3, None, x

    report = run(program, X)
    assert report.kernel_launches == 1


def test_constants_of_the_program_are_arguments_of_the_plan():
    table = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])

    def program(x):
        with anabranch.stream(1):
            h = x * torch.tensor([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
        return h + table

    assert 1 in by_stream(run(program, X))
