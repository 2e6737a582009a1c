"""Checks that every op runs on one stream, that forks and joins start where their operands are, and that results are joined.

Requires value form. Changes nothing. Refuses, at the op concerned and naming both ends and the missing edge:

    %h = torch.aten.relu %x1                          // stream 1: %x1 is the result of a fork to 1
    %y = torch.aten.add.Tensor %h, %r, %int1          // error: %r is on stream 0
    return %h                                         // error: %h is on stream 1 and not joined

Stream ids that the module's table lacks are refused by the ops' own verifiers.
"""

from torch_mlir import ir

from anabranch.dialect import membership
from anabranch.dialect.ops import functions


def verify_streams(module: ir.Operation | ir.Module) -> None:
    """Emits an error for each use that contradicts the stream membership of a value."""
    for function in functions(module):
        membership.verify(function)
