"""How a schedule calls a PyTorch op: into memory that it gives, or into memory that the op allocates on its stream."""

from dataclasses import dataclass

from anabranch.dialect.layout import Layout
from anabranch.lowering.aten_call import out_overload, overload

_COPIES = ("aten._to_copy.default", "aten.clone.default")


@dataclass(frozen=True)
class Convention:
    """``out``: ``callee`` writes given tensors; ``return``: it returns tensors of its own."""

    callee: str
    arguments: str
    name: str


def convention(callee: str, arguments: str, results: list[Layout]) -> Convention:
    """How to call ``callee`` with ``arguments`` where it gives ``results``."""
    if callee in _COPIES and "pin_memory=True" not in arguments:
        # A copy into a tensor that has the dtype, device and strides already.
        return Convention("aten.copy_.default", "%0, True" if "non_blocking=True" in arguments else "%0", "out")
    if len({layout.device for layout in results}) == 1:
        op = out_overload(overload(callee), results[0].device)
        if op is not None and len(results) == len(op._schema.returns):
            return Convention(str(op), arguments, "out")
    return Convention(callee, arguments, "return")
