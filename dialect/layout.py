"""Where and how a tensor lies in memory: shape, strides, dtype and device, in torch's and in MLIR's words."""

import re
from dataclasses import dataclass

import torch
from torch_mlir import ir

# The attribute of an argument or result that says where it lies.
LAYOUT_ATTR = "anabranch.layout"

# torch dtype -> element type of a memref. Signless, but where MLIR would otherwise merge two torch dtypes.
ELEMENT_TYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
}
_DTYPES = {text: dtype for dtype, text in ELEMENT_TYPES.items()}
_TEXT = re.compile(r"(\w+)\[([\d, ]*)\] strides \[([\d, ]*)\] on ([\w:]+)$")


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(x) for x in text.split(",") if x.strip())


@dataclass(frozen=True)
class Layout:
    """A tensor's place: ``float32[4, 16] strides [16, 1] on cuda:0`` in text."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: str

    @staticmethod
    def of(tensor: torch.Tensor) -> "Layout":
        return Layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, str(tensor.device))

    @staticmethod
    def parse(text: str) -> "Layout":
        match = _TEXT.match(text)
        if match is None:
            raise ValueError(f"not a layout: {text!r}; write it as {Layout((2, 3), (3, 1), torch.float32, 'cuda:0')}")
        dtype, shape, stride, device = match.groups()
        return Layout(_ints(shape), _ints(stride), getattr(torch, dtype), device)

    def __str__(self):
        return f"{str(self.dtype)[6:]}{list(self.shape)} strides {list(self.stride)} on {self.device}"

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last element, both included."""
        if 0 in self.shape:
            return 0
        return (sum((n - 1) * s for n, s in zip(self.shape, self.stride)) + 1) * self.dtype.itemsize

    def memref(self) -> ir.Type:
        """The memref type, for the current MLIR context."""
        dims = "".join(f"{n}x" for n in self.shape)
        return ir.Type.parse(f"memref<{dims}{ELEMENT_TYPES[self.dtype]}, strided<{list(self.stride)}>>")

    @staticmethod
    def from_memref(type_: ir.Type, device: str) -> "Layout":
        memref = ir.MemRefType(type_)
        strides, _ = memref.get_strides_and_offset()
        return Layout(tuple(memref.shape), tuple(strides), _DTYPES[str(memref.element_type)], device)
