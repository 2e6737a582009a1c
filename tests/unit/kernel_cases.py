"""Programs that must each become one Triton kernel: shapes, types, strides and reductions that real models have."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F


class Case(NamedTuple):
    fn: Callable
    args: list[torch.Tensor]


_random = torch.Generator().manual_seed(0)


def _randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=_random).to(dtype)


def _ints(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(-9, 9, shape, generator=_random).to(dtype)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def _masked_softmax(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.masked_fill(keep == 0, float("-inf")), -1)


_keep = torch.rand(3, 1, 7, generator=_random) > 0.3
_keep[1] = False  # a row of nothing but -inf is nan in eager
_bf16, _f16, _f64 = torch.bfloat16, torch.float16, torch.float64
_inf = float("inf")

CASES = {
    # broadcasts
    "chain": Case(lambda x, b: torch.relu(x * 2 + b) - x, [_randn(5, 48), _randn(48)]),
    "outer sum": Case(lambda a, b: a + b, [_randn(37, 1), _randn(1, 19)]),
    "middle dimension": Case(lambda x, b: x * b, [_randn(3, 5, 7), _randn(5, 1)]),
    "0-d tensor": Case(lambda x, s: x * s, [_randn(6), torch.tensor(3.0)]),
    "0-d only": Case(lambda s: torch.exp(s) + 1, [torch.tensor(0.5)]),
    "unit dimensions": Case(lambda x, y: x * y, [_randn(1, 5, 1, 3), _randn(5, 1, 1)]),
    "many programs": Case(lambda x: x + 1, [_randn(3, 70001)]),
    # types
    "bf16 chain": Case(lambda x, y: torch.sigmoid(x) * y + 0.1, [_randn(4, 33, dtype=_bf16), _randn(4, 33, dtype=_bf16)]),
    "casts": Case(lambda x: (x.to(_f16), x.to(_bf16), x.to(_f64), x.to(torch.int32)), [_randn(65) * 9]),
    "f64": Case(lambda x: torch.tanh(x) * 0.1, [_randn(65, dtype=_f64)]),
    "integers": Case(lambda x, y: (x * 3 - y, x // 4, x % 4, x & y), [_ints(50), _ints(50)]),
    "int and float": Case(lambda i, x: i.to(torch.int8) * x, [_ints(20), _randn(20)]),
    "uint8": Case(lambda x: x.float() / 255, [torch.arange(256, dtype=torch.uint8)]),
    "bools": Case(lambda x, y: ((x > 0) & ~(y > x)) | (y == 0), [_randn(40), _ints(40)]),
    "bool inputs": Case(lambda m, x: torch.where(m, x, 0.0), [_ints(40) > 0, _randn(40)]),
    # the tails of functions
    "tanh": Case(torch.tanh, [torch.tensor([0.0, 1e-6, -1e-3, 0.2, 0.3, -5.0, 40.0, 1e30, -_inf, float("nan")])]),
    "gelu": Case(lambda x: (F.gelu(x), F.gelu(x, approximate="tanh")), [torch.linspace(-9, 9, 99)]),
    "log1p and expm1": Case(lambda x: (torch.log1p(x), torch.expm1(x)), [torch.tensor([0.0, 1e-7, -0.3, 1e-3, 80.0])]),
    "powers": Case(lambda x, y: (x**2, x**-3, x.abs() ** 0.3, x**y), [_randn(50), _ints(50).float()]),
    "nan survives": Case(
        lambda x: (x.clamp(-1, 1), torch.maximum(x, x * 0), torch.relu(x), x == x),
        [torch.tensor([float("nan"), 2.0, -2.0])],
    ),
    # rows
    "softmax": Case(lambda x: torch.softmax(x, -1), [_randn(2, 3, 61) * 20]),
    "softmax of bf16": Case(lambda x: torch.softmax(x, -1), [_randn(4, 64, dtype=_bf16)]),
    "softmax of masked rows": Case(_masked_softmax, [_randn(3, 4, 7), _keep]),
    "log softmax": Case(lambda x: torch.log_softmax(x, -1), [_randn(5, 100)]),
    "attention scores": Case(lambda s, m: torch.softmax(s / 8 + m, -1), [_randn(2, 4, 16, 16), _randn(2, 1, 1, 16)]),
    "layer norm": Case(lambda x, w, b: F.layer_norm(x, (48,), w, b), [_randn(3, 5, 48), _randn(48), _randn(48)]),
    "layer norm of bf16": Case(
        lambda x, w, b: F.layer_norm(x, (48,), w, b),
        [_randn(9, 48, dtype=_bf16), _randn(48, dtype=_bf16), _randn(48, dtype=_bf16)],
    ),
    "residual and layer norm": Case(
        lambda x, y, w: ((z := x + y), F.layer_norm(z, (33,), w)), [_randn(7, 33), _randn(7, 33), _randn(33)]
    ),
    "rms norm": Case(_rms_norm, [_randn(6, 96, dtype=_bf16), _randn(96, dtype=_bf16)]),
    "sum": Case(lambda x: x.sum(-1), [_randn(5, 40)]),
    "sum of two dimensions": Case(lambda x: x.sum((-1, -2)), [_randn(5, 6, 7)]),
    "sum of all, and the tensor": Case(lambda x: (x.sum(), x * 2), [_randn(5, 40)]),
    "sum of bools": Case(lambda x: (x > 0).sum(-1), [_randn(5, 40)]),
    "mean": Case(lambda x: x - x.mean(-1, keepdim=True), [_randn(300, 17)]),
    "amax with nan": Case(lambda x: x.amax(-1), [torch.tensor([[1.0, float("nan"), 3.0], [1.0, 2.0, -3.0]])]),
    "amin": Case(lambda x: x.amin(-1), [_ints(5, 40)]),
    "rows of one element": Case(lambda x: torch.softmax(x, -1) + x.sum(-1, keepdim=True), [_randn(5, 1)]),
    # strides
    "transposed": Case(lambda x, y: x + y, [_randn(31, 17).t(), _randn(17, 31)]),
    "x + x.T": Case(lambda x: x + x.t(), [_randn(9, 9)]),
    "sliced": Case(lambda x: torch.exp(x), [_randn(10, 20)[1::2, 3:15]]),
    "expanded": Case(lambda x, y: x * y, [_randn(4, 1).expand(4, 33), _randn(4, 33)]),
    "softmax of transposed": Case(lambda x: torch.softmax(x, -1), [_randn(2, 30, 5).transpose(1, 2)]),
    # no tensor operands, results without work
    "constructors": Case(lambda x: (torch.full((3, 5), 2.5), torch.arange(5) + x), [_randn(3, 5)]),
    "side by side": Case(lambda x, y: (x + 1, y * 2), [_randn(1, 5, 6), _randn(5, 1)]),
    "a scalar beside": Case(lambda x, s: (x * s, s + 1), [_randn(70), torch.tensor(3.0)]),
    "copy": Case(lambda x: (x.clone(), x + 1), [_randn(4, 6).t()]),
}
