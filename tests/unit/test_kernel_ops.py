"""Every op that may go into a kernel is lowered as PyTorch computes it, infinities and nan included."""

import pytest
import torch

from anabranch.lowering.kernel_ops import FUSIBLE, is_fusible, row_of
from tests.unit import kernel_programs as programs

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

_random = torch.Generator().manual_seed(0)
X = torch.randn(3, 40, generator=_random) * 2
X[0, :4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0])
Y = torch.randn(3, 40, generator=_random) * 2
FINITE = torch.randn(3, 40, generator=_random)
POSITIVE = torch.rand(3, 40, generator=_random) + 0.1
UNIT = torch.rand(3, 40, generator=_random) * 1.8 - 0.9
I = torch.randint(-50, 50, (3, 40), generator=_random)  # noqa: E741
J = torch.randint(1, 9, (3, 40), generator=_random) * (torch.randint(0, 2, (3, 40), generator=_random) * 2 - 1)
B = Y > 0

_UNARY = """abs ceil cos erf exp exp2 expm1 floor hardsigmoid hardswish hardtanh isinf isnan leaky_relu logical_not mish
    neg reciprocal relu round rsqrt sgn sigmoid silu sin softplus sqrt tan tanh trunc elu log log10 log1p log2 clone"""
_BINARY = """add.Tensor sub.Tensor mul.Tensor div.Tensor maximum minimum fmod.Tensor remainder.Tensor eq.Tensor
    ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor logical_and logical_or logical_xor fmax fmin"""
_SCALAR = """add.Scalar sub.Scalar mul.Scalar div.Scalar rsub.Scalar eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar
    ge.Scalar remainder.Scalar"""
_BITS = "bitwise_and bitwise_or bitwise_xor"

# op -> the argument lists to try it on.
PROGRAMS: dict[str, list[tuple]] = {
    **{name: [(X,)] for name in _UNARY.split()},
    **{name: [(X, Y), (I, J)] for name in _BINARY.split()},
    **{name: [(X, 1.7), (I, 3)] for name in _SCALAR.split()},
    **{f"{name}.Tensor": [(I, J), (B, X > 0)] for name in _BITS.split()},
    "bitwise_and.Scalar": [(I, 5)],
    "neg": [(X,), (I,)],
    "bitwise_not": [(I,), (B,)],
    "gelu": [(FINITE,)],
    "gt.Scalar": [((FINITE * 10).round() / 10, 0.1), ((FINITE * 10).round().bfloat16() / 10, 0.1)],
    "lt.Scalar": [(torch.tensor([200, 255, 3], dtype=torch.uint8), 100)],
    "div.Tensor_mode": [(I, J, {"rounding_mode": "floor"}), (FINITE, POSITIVE, {"rounding_mode": "trunc"})],
    "pow.Tensor_Scalar": [(FINITE, 2), (FINITE, -3), (FINITE, 7), (POSITIVE, 0.5), (POSITIVE, 1.3)],
    "pow.Tensor_Tensor": [(POSITIVE, Y), (FINITE, J.float())],
    "pow.Scalar": [(2.0, Y)],
    "where.self": [(B, X, Y)],
    "masked_fill.Scalar": [(X, B, -1.0)],
    "masked_fill.Tensor": [(X, B, torch.tensor(3.0))],
    "clamp": [(X, -1, 1), (X, 0.5), (X, None, 0.5), (I, -3, 3)],
    "clamp.Tensor": [(FINITE, -POSITIVE, POSITIVE)],
    "clamp_min": [(X, 0.1)],
    "clamp_max": [(X, 0.1)],
    "addcmul": [(X, Y, POSITIVE, {"value": 2.0})],
    "addcdiv": [(X, Y, POSITIVE, {"value": 2.0})],
    "lerp.Scalar": [(FINITE, Y, 0.3)],
    "tanh_backward": [(FINITE, UNIT)],
    "sigmoid_backward": [(FINITE, UNIT)],
    "threshold_backward": [(FINITE, Y, 0)],
    "_to_copy": [(x, {"dtype": d}) for x in (FINITE, I, B) for d in (torch.float16, torch.float64, torch.int32)],
    "full": [([3, 4], 2.0)],
    "zeros": [([3, 4],)],
    "ones": [([3, 4],)],
    "full_like": [(X, 2.0)],
    "zeros_like": [(X,)],
    "ones_like": [(X,)],
    "scalar_tensor": [(2.0,)],
    "arange": [(10,)],
    "arange.start": [(2, 9)],
    "arange.start_step": [(2, 20, 3)],
    "sum": [(X,), (B,)],
    "sum.dim_IntList": [(X, [1]), (FINITE, [-1], True), (FINITE, [0, 1]), (I, [1]), (B, [1])],
    "mean": [(FINITE,)],
    "mean.dim": [(FINITE, [1]), (FINITE, [0, 1], True)],
    "amax": [(X, [1]), (I.int(), [-1], True)],
    "amin": [(X, [1]), (I.short(), [-1], True)],
    "max": [(X,)],
    "min": [(FINITE,)],
    "var.correction": [(FINITE, [1]), (FINITE, [1], {"correction": 0, "keepdim": True})],
    "var_mean.correction": [(FINITE, [1], {"correction": 0, "keepdim": True})],
    "all.dim": [(B, 1)],
    "any.dim": [(B, 1)],
    "_softmax": [(FINITE, -1, False), (FINITE.half(), 1, False)],
    "_log_softmax": [(FINITE, -1, False)],
    "native_layer_norm": [(FINITE, [40], UNIT[0], UNIT[1], 1e-5), (FINITE, [3, 40], None, None, 1e-5)],
}


def _program(name: str, values: tuple):
    """The op as a function of its tensors."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    keywords = values[-1] if isinstance(values[-1], dict) else {}
    values = [v for v in values if not isinstance(v, dict)]

    def fn(*tensors):
        given = iter(tensors)
        made = op(*[next(given) if isinstance(v, torch.Tensor) else v for v in values], **keywords)
        return made[0] if name == "native_layer_norm" else made

    return fn, [v for v in values if isinstance(v, torch.Tensor)]


def _torch_op(name: str, values: tuple):
    """The op in the torch dialect, and the module that keeps it alive."""
    module = programs.kernel_module(*_program(name, values))
    ops = [o.operation for o in module.body.operations[0].operation.regions[0].blocks[0].operations]
    (op,) = [o for o in ops if o.name == f"torch.aten.{name}"]
    return op, module


def _fusible(name: str, values: tuple) -> bool:
    op, _module = _torch_op(name, values)
    return is_fusible(op)


def test_each_fusible_op_has_a_program():
    assert {name.removeprefix("torch.aten.") for name in FUSIBLE} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fusible_op_computes_what_pytorch_does(name, tmp_path):
    for values in PROGRAMS[name]:
        assert _fusible(name, values)
        fn, args = _program(name, values)
        for made, expected in zip(programs.run(fn, args, tmp_path), programs.results(fn, args), strict=True):
            rtol, atol = (1e-2, 1e-3) if expected.dtype == torch.float16 else (1e-5, 1e-6)
            torch.testing.assert_close(made, expected, rtol=rtol, atol=atol, equal_nan=True)


REFUSED = {
    "reduces an outer dimension": ("sum.dim_IntList", (X, [0])),
    "a row too long": ("sum.dim_IntList", (torch.ones(1, 16385), [1])),
    "softmax of an outer dimension": ("_softmax", (X, 0, False)),
    "no elements": ("exp", (torch.ones(0, 3),)),
    "complex numbers": ("neg", (torch.ones(3, dtype=torch.complex64),)),
    "float quotient rounded down": ("div.Tensor_mode", (X, Y, {"rounding_mode": "floor"})),
    "power of integers": ("pow.Tensor_Scalar", (I, 2)),
    "power too high to multiply out": ("pow.Tensor_Scalar", (X, 40)),
    "copy that need not wait": ("_to_copy", (X, {"dtype": torch.float16, "non_blocking": True})),
    "copy to a device": ("_to_copy", (X, {"device": torch.device("cpu")})),
    "an op of a library": ("mm", (X, X.t())),
}


@pytest.mark.parametrize("why", REFUSED)
def test_an_op_that_no_kernel_should_do_is_refused(why):
    assert not _fusible(*REFUSED[why])


ROWS = {
    "softmax": (("_softmax", (torch.ones(2, 3, 7), -1, False)), ((2, 3), (7,))),
    "two dimensions": (("sum.dim_IntList", (torch.ones(2, 3, 7), [-1, -2], True)), ((2,), (3, 7))),
    "all dimensions": (("mean", (torch.ones(2, 1, 7),)), ((), (2, 7))),
    "layer norm": (("native_layer_norm", (torch.ones(4, 1, 7), [7], None, None, 1e-5)), ((4,), (7,))),
    "elementwise": (("exp", (X,)), None),
}


@pytest.mark.parametrize("name", ROWS)
def test_row_ops_say_what_they_keep_and_reduce(name):
    program, expected = ROWS[name]
    op, _module = _torch_op(*program)
    assert row_of(op) == expected
