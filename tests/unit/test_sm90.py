"""Kernels compile to sm_90 machine code, on a machine without a GPU too."""

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tests.unit import kernel_programs as programs
from tests.unit.kernel_cases import CASES

# Whether products and sums may be contracted is for whoever launches the kernel to say.
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

TYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "i1",
}


def _compile(fn, args, folder):
    kernel = programs.emit(fn, args, "cuda")
    constants = dict(kernel.constants)
    options = {"num_warps": constants.pop("num_warps")}
    tensors = [*args, *programs.results(fn, args)]
    function = programs.load(kernel, folder, interpret=False)
    signature = dict(zip(function.arg_names, (f"*{TYPES[t.dtype]}" for t in tensors)))
    signature |= dict.fromkeys(constants, "constexpr")
    # Pointers are aligned to 16 bytes, as those of torch's allocator are.
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(len(tensors))}
    source = ASTSource(function, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


@pytest.mark.parametrize("name", CASES)
def test_kernel_compiles_to_machine_code(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    compiled = _compile(*CASES[name], tmp_path)
    assert ".target sm_90" in compiled.asm["ptx"]
    assert compiled.asm["cubin"][:4] == b"\x7fELF"


def test_contiguous_chains_move_128_bits_at_once(tmp_path, monkeypatch):
    """A kernel that moves whole tensors is bound by memory: its loads and stores are the widest there are."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    args = [torch.ones(1024, 1024), torch.zeros(1024, 1024)]
    ptx = _compile(lambda x, y: torch.relu(x) + y, args, tmp_path).asm["ptx"]
    assert ptx.count("ld.global.v4.b32") == 4 and ptx.count("st.global.v4.b32") == 2
