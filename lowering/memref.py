"""Layouts as MLIR's memref types, and back."""

import torch
from torch_mlir import ir

from anabranch.dialect.layout import Layout

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
    torch.uint16: "ui16",
    torch.uint32: "ui32",
    torch.uint64: "ui64",
    torch.complex32: "complex<f16>",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
}
_DTYPES = {text: dtype for dtype, text in ELEMENT_TYPES.items()}


def memref(layout: Layout) -> ir.Type:
    """The memref type of ``layout``, for the current MLIR context; its device is not part of it."""
    dims = "".join(f"{n}x" for n in layout.shape)
    return ir.Type.parse(f"memref<{dims}{ELEMENT_TYPES[layout.dtype]}, strided<{list(layout.stride)}>>")


def layout_of_memref(type_: ir.Type, device: str) -> Layout:
    """The layout of a memref type on ``device``."""
    type_ = ir.MemRefType(type_)
    strides, _ = type_.get_strides_and_offset()
    return Layout(tuple(type_.shape), tuple(strides), _DTYPES[str(type_.element_type)], device)
