"""Where and how a tensor lies in memory: shape, strides, dtype and device."""

import re
from dataclasses import dataclass

import torch

# The attribute of an argument or result that says where it lies.
LAYOUT_ATTR = "anabranch.layout"

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
