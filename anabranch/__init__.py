"""Anabranch: fork/join streams for PyTorch, and a compiler from them to per-stream Triton kernels with event waits.

y = torch.compile(model, backend="anabranch")(x)
print(anabranch.last_report())
"""

from typing import TYPE_CHECKING, Any

from anabranch.dialect.stream_context import stream
from anabranch.dialect.torch_ops import fork_stream, join_stream

if TYPE_CHECKING:
    from anabranch.runtime.backend import compile
    from anabranch.runtime.report import last_report

__all__ = ["compile", "fork_stream", "join_stream", "last_report", "stream"]

_LAZY = {"compile": "anabranch.runtime.backend", "last_report": "anabranch.runtime.report"}


def __getattr__(name: str) -> Any:
    # The compiler is loaded when it is first used: a program that only runs eagerly needs neither MLIR nor Triton.
    if name not in _LAZY:
        raise AttributeError(f"module 'anabranch' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
