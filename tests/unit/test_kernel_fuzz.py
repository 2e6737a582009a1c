"""Random programs of elementwise ops and row reductions become one kernel that computes what eager does."""

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import kernel_programs as programs

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

UNARY = [torch.tanh, torch.sigmoid, torch.relu, torch.neg, lambda x: x * 0.5 + 1, lambda x: x.clamp(-0.5, 2)]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, lambda a, b: torch.where(a > b, a, b * 2)]
ROWS = [
    lambda x: torch.softmax(x, -1),
    lambda x: x - x.mean(-1, keepdim=True),
    lambda x: x + x.amax(-1, keepdim=True),
    lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    lambda x: x.sum(-1, keepdim=True) * 0.1,
]


def _randn(data: st.DataObject, shape: list[int]) -> torch.Tensor:
    """In 64 bits: a layer norm of equal values multiplies rounding errors by 300."""
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99), label="seed"))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _tensor(data: st.DataObject, shape: list[int]) -> torch.Tensor:
    """A tensor that broadcasts to ``shape``, with any strides."""
    sizes = [data.draw(st.sampled_from([n, 1]), label="size") for n in shape]
    sizes = sizes[data.draw(st.integers(0, len(sizes)), label="dims left out") :]
    order = data.draw(st.permutations(range(len(sizes))), label="order")
    step = data.draw(st.integers(1, 2), label="step")
    whole = _randn(data, [sizes[d] * step for d in order])
    sliced = whole[tuple(slice(None, None, step) for _ in sizes)]
    back = [order.index(d) for d in range(len(sizes))]
    return sliced.permute(back) if sizes else sliced


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_random_programs(data):
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3), label="shape")
    inputs = data.draw(st.integers(0, 3), label="inputs")
    args = [_randn(data, shape)] + [_tensor(data, shape) for _ in range(inputs)]
    steps = []
    for i in range(data.draw(st.integers(1, 7), label="steps")):
        ops = data.draw(st.sampled_from([UNARY, BINARY, ROWS]), label="kind")
        operands = data.draw(st.tuples(*[st.integers(0, len(args) + i - 1)] * 2), label="operands")
        steps.append((ops, data.draw(st.sampled_from(ops)), operands))
    returned = data.draw(st.sets(st.integers(0, len(steps) - 1)), label="returned")

    def fn(*tensors):
        values = list(tensors)
        for ops, op, (a, b) in steps:
            if ops is BINARY:
                values.append(op(values[a], values[b]))
            elif ops is ROWS:
                values.append(op(values[a] + values[0]))  # of the full shape: a kernel has rows of one length
            else:
                values.append(op(values[a]))
        # What shares no value need not be one kernel: the last result uses all.
        return (*(values[len(tensors) + i] for i in sorted(returned)), sum(values))

    with tempfile.TemporaryDirectory() as folder:
        for made, expected in zip(programs.run(fn, args, Path(folder)), programs.results(fn, args), strict=True):
            torch.testing.assert_close(made, expected, rtol=1e-7, atol=1e-9)
