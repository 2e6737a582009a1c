"""``as_strided`` relative to its operand, which stays right when the operand lies elsewhere in memory.

``aten.as_strided`` counts its offset from the start of the operand's storage. A compiled program puts values into memory of
its own, where the same value starts at another offset.
"""

import torch
from torch import Tensor
from torch.fx import GraphModule

_LIBRARY = torch.library.Library("anabranch", "FRAGMENT")
_LIBRARY.define("strided_view(Tensor(a) x, int[] size, int[] stride, int offset) -> Tensor(a)")


def _strided_view(x: Tensor, size: list[int], stride: list[int], offset: int) -> Tensor:
    return x.as_strided(size, stride, x.storage_offset() + offset)


# Made of as_strided for every backend, fake tensors included.
_LIBRARY.impl("strided_view", _strided_view, "CompositeImplicitAutograd")


def make_strides_relative(gm: GraphModule) -> None:
    """Replaces each ``aten.as_strided`` in ``gm`` by ``anabranch.strided_view``, in place."""
    for node in gm.graph.nodes:
        if node.target is torch.ops.aten.as_strided.default:
            x, size, stride, *rest = node.args
            offset = rest[0] if rest else node.kwargs.get("storage_offset")
            start = x.meta["val"].storage_offset()
            node.target = torch.ops.anabranch.strided_view.default
            node.args = (x, size, stride, 0 if offset is None else offset - start)
            node.kwargs = {}
    gm.recompile()
