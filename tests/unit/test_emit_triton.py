"""Kernels emitted from linalg, run in Triton's interpreter, give what eager PyTorch gives."""

import pytest
import torch
from torch_mlir import ir

from anabranch.dialect import ops
from anabranch.lowering.emit_triton import Unsupported, emit_kernel
from tests.unit import kernel_programs as programs
from tests.unit.kernel_cases import CASES

# The interpreter computes the lanes that a mask or a `where` discards, too.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")


@pytest.mark.parametrize("name", CASES)
def test_one_kernel_computes_what_eager_does(name, tmp_path):
    fn, args = CASES[name]
    for made, expected in zip(programs.run(fn, args, tmp_path), programs.results(fn, args), strict=True):
        # Eager rounds 16-bit floats after each op, a kernel at the end only.
        half = expected.dtype in (torch.float16, torch.bfloat16)
        rtol, atol = (1.6e-2, 1e-2) if half else (1e-5, 1e-6)
        torch.testing.assert_close(made, expected, equal_nan=True, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_one_kernel_of_inputs_then_outputs(name):
    fn, args = CASES[name]
    kernel = programs.emit(fn, args, "cuda")
    pointers = [f"in_ptr{i}" for i in range(len(args))]
    pointers += [f"out_ptr{i}" for i in range(len(programs.results(fn, args)))]
    assert kernel.source.startswith(f"@triton.jit\ndef kernel_0({', '.join(pointers)}, XBLOCK: tl.constexpr")
    assert kernel.source.count("@triton.jit") == 1
    assert set(kernel.constants) - {"RBLOCK"} == {"XBLOCK", "num_warps"}


def test_contiguous_dimensions_become_one_index():
    """A chain on whole tensors needs no division by a size."""
    source = programs.emit(lambda x, y: x * y + 1, [torch.ones(4, 5, 6), torch.ones(4, 5, 6)], "cuda").source
    assert "//" not in source and "%" not in source


def test_a_result_smaller_than_the_loops_is_written_once():
    """Programs that do not own a result must not write it again: on a GPU that costs time, and hides races."""
    source = programs.emit(lambda x, y: (x + y, y * 2), [torch.ones(50, 60), torch.ones(50, 1)], "cuda").source
    stores = [line for line in source.splitlines() if "tl.store(out_ptr1" in line]
    assert len(stores) == 1 and stores[0].endswith("xmask & (x0 == 0))")


def test_a_constant_stays_in_the_type_it_is_used_in():
    """Scalars are 64 bits wide in torch; nothing on f32 may be computed in f64."""
    source = programs.emit(lambda x: (x * 0.1 + 3).clamp(min=0.3) > 0.7, [torch.ones(4)], "cuda").source
    assert "float64" not in source


def _emit_text(body: str):
    module = ir.Module.parse(body, ops.new_context())
    return emit_kernel(module.body.operations[0], "cpu")


REFUSED = {
    "reductions over different dimensions": (lambda x: x.sum(0, keepdim=True) + x.sum(1, keepdim=True), (4, 5)),
    "a row of 20000 elements": (lambda x: x.sum(-1), (2, 20000)),
    "a reduction by arith.mulf": (lambda x: torch.prod(x, 1), (4, 5)),
    "loop nests that do not share": (lambda x: (x + 1, torch.arange(999)), (4, 5)),
    "a tensor without elements": (lambda x: x + 1, (0, 5)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_single_kernel_is_refused_with_the_reason(reason):
    fn, shape = REFUSED[reason]
    with pytest.raises(Unsupported, match=reason):
        programs.emit(fn, [torch.ones(shape)], "cuda")


def test_comments_name_the_users_line():
    kernel = _emit_text(
        """#map = affine_map<(d0) -> (d0)>
        func.func @k(%x: tensor<8xf32>) -> tensor<8xf32> {
          %e = tensor.empty() : tensor<8xf32>
          %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
              ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
          ^bb0(%in: f32, %out: f32):
            %z = math.exp %in : f32
            linalg.yield %z : f32
          } -> tensor<8xf32> loc("folder/model.py":42:0)
          return %y : tensor<8xf32>
        }"""
    )
    assert "    # model.py:42: pointwise [8]: exp\n" in kernel.source


def test_an_unknown_op_is_refused_by_name():
    with pytest.raises(Unsupported, match="tensor.extract_slice"):
        _emit_text(
            """func.func @k(%x: tensor<8xf32>) -> tensor<4xf32> {
              %y = tensor.extract_slice %x[0] [4] [1] : tensor<8xf32> to tensor<4xf32>
              return %y : tensor<4xf32>
            }"""
        )


def test_a_dynamic_shape_is_refused():
    with pytest.raises(Unsupported, match="a dynamic shape"):
        _emit_text("func.func @k(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }")
