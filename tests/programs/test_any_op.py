"""Ops of every kind compile, on a side stream: what no kernel computes, PyTorch runs."""

import pytest
import torch
import torch.nn.functional as F

import anabranch
from tests.programs.harness import run

X = torch.linspace(-2, 2, 48).reshape(6, 8)
SQUARE = X[:, :6] @ X[:, :6].T + 10 * torch.eye(6)
CASES = {
    "two results": lambda x: torch.topk(x, 3),
    "three results": lambda x: torch.linalg.svd(x, full_matrices=False),
    "a list of results": lambda x: torch.split(x, [2, 4]),
    "a list of one view": lambda x: torch.split(x, 6)[0],
    "a list of operands": lambda x: torch.cat([x, x.exp(), x[:2]]),
    "an optional list of operands": lambda x: x[:, torch.tensor([0, 2])],
    "a view": lambda x: x.t()[1:, ::2].unsqueeze(0).expand(2, -1, -1),
    "a view of a view, written to strides of its own": lambda x: x.t().contiguous().view(-1) * 2,
    "strides that another tensor's memory gives": lambda x: (x + 1).as_strided((3, 2), (8, 1), 5),
    "a dtype as an argument": lambda x: x.to(torch.float64).sum(dtype=torch.float32),
    "a dtype that MLIR has no number for": lambda x: x.to(torch.complex128).abs(),
    "a view as a dtype that MLIR has no number for": lambda x: (
        (x + 1).to(torch.float16).view(torch.uint16).view(torch.float16) * 1
    ),
    "complex numbers": lambda x: torch.fft.fft(x).real,
    "integers": lambda x: (x * 10).to(torch.int32) // 3,
    "bool": lambda x: torch.logical_and(x > 0, torch.tensor(1.0)),
    "a bool as a number": lambda x: torch.fill(x, True),
    "16 bits": lambda x: torch.softmax(x.bfloat16(), -1),
    "an index": lambda x: F.embedding(torch.tensor([1, 3, 3]), x),
    "a scan": lambda x: x.cumsum(0),
    "a convolution": lambda x: F.conv1d(x[None], x[:4, None, :3].expand(4, 6, 3), padding=1),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "an effect and its check": lambda x: torch.linalg.inv(SQUARE + 0 * x.sum()),
    "nothing but a constant": lambda x: torch.full((3,), 2.0) + torch.arange(3),
    "an empty tensor": lambda x: x[:0].relu(),
    "a complex number as an argument": lambda x: (x * 1j).imag + x,
    "a softmax of one element": lambda x: x.sum().softmax(0) + x.mean().log_softmax(0),
    "one element": lambda x: x.sum().sigmoid() * x.mean(),
    "rows of several dimensions": lambda x: F.layer_norm(x.reshape(3, 2, 8), (2, 8)),
    "columns": lambda x: x.softmax(0).sum(0),
    "an in-place chain": lambda x: x.clone().mul_(2).add_(1).clamp_(min=0),
    "an in-place write to a part": lambda x: x.clone().index_fill_(1, torch.tensor([1]), 7.0),
}


@pytest.mark.parametrize("function", CASES.values(), ids=CASES)
def test_on_a_side_stream(function):
    def program(x):
        with anabranch.stream(1):
            return function(x)

    report = run(program, X, seeds=[0, 1])
    copies = [stream for stream, name, _ in report.launches if stream == 0 and name == "aten.copy_"]
    assert len(copies) == sum(stream == 0 for stream, _, _ in report.launches)
