"""The torch ops: schema, eager, fake and autograd, alone and under Dynamo."""

import pytest
import torch

import anabranch
from anabranch.dialect.torch_ops import FORK, JOIN

X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("op", [FORK, JOIN])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(op, requires_grad):
    xs = [torch.randn(2, 3, requires_grad=requires_grad), torch.randn(4, requires_grad=requires_grad)]
    torch.library.opcheck(op, (xs, 0, 1))
    torch.library.opcheck(op, ([torch.arange(3)], 2, 0))


def test_results_are_copies_in_the_operands_shape():
    x, y = anabranch.fork_stream(X, X.T, target=3)
    assert torch.equal(x, X) and torch.equal(y, X.T)
    x.add_(1)
    assert torch.equal(X, torch.arange(6.0).reshape(2, 3))


def test_one_tensor_in_one_out_and_several_in_a_tuple_out():
    assert isinstance(anabranch.join_stream(X), torch.Tensor)
    assert isinstance(anabranch.join_stream(X, X), tuple)


@pytest.mark.parametrize("function", [anabranch.fork_stream, anabranch.join_stream])
def test_gradients_cross_back(function):
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: function(x) * 2, x)
    assert torch.autograd.gradgradcheck(lambda x: function(x) ** 2, x)


def test_a_forks_gradient_is_a_join_from_its_target():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    recorded = []

    class Record(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func in (FORK, JOIN):
                recorded.append((func, len(args[0]), *args[1:]))
            return func(*args, **(kwargs or {}))

    with Record():
        a, _ = anabranch.fork_stream(x, y, target=2)
        # The second result is not used: no gradient crosses for it.
        a.sum().backward()
    assert recorded == [(FORK, 2, 0, 2), (JOIN, 1, 2, 0)]
    assert torch.equal(x.grad, torch.ones(2)) and y.grad is None


def test_dynamo_keeps_them_in_one_graph():
    def program(x):
        return anabranch.join_stream(anabranch.fork_stream(x).sin())

    for backend in ("eager", "aot_eager"):
        assert torch.equal(torch.compile(program, backend=backend, fullgraph=True)(X), X.sin())


def test_contexts_do_nothing_in_eager_without_cuda():
    with anabranch.stream(1):
        with anabranch.stream(0):
            y = X.sin()
    assert torch.equal(y, X.sin())


def test_importing_loads_no_compiler():
    import subprocess
    import sys

    code = "import anabranch, sys; anabranch.stream(1); print([m for m in ('torch_mlir', 'triton') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr
