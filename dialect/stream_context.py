"""``with anabranch.stream(i):``, a stream context that needs no CUDA."""

import threading

import torch

from anabranch.dialect.torch_ops import check_stream_id

# The key under which an op's stream travels from Dynamo's graph to the functional graph. PyTorch's own key, "stream", makes
# AOTAutograd insert waits of its own, which are not complete; this one it only carries along.
STREAM_KEY = "anabranch.stream"

# Where a context begins and ends in Dynamo's graph. Capture takes both out again.
_LIBRARY = torch.library.Library("anabranch", "FRAGMENT")
_LIBRARY.define("enter_stream(int id) -> ()")
_LIBRARY.define("exit_stream() -> ()")
_LIBRARY.impl("enter_stream", lambda id: None, "CompositeExplicitAutograd")
_LIBRARY.impl("exit_stream", lambda: None, "CompositeExplicitAutograd")
ENTER = torch.ops.anabranch.enter_stream.default
EXIT = torch.ops.anabranch.exit_stream.default
for _op in (ENTER, EXIT):
    torch.fx.node.has_side_effect(_op)

_POOL: dict[tuple[int, int], torch.cuda.Stream] = {}
_NESTING = threading.local()


class stream:  # noqa: N801  (a context like torch.cuda.stream)
    """A context in which ops run on stream ``id``; 0 is the caller's current stream. Contexts nest, the innermost counts.

    Compiled, only the data flow orders streams. In eager on CUDA a side stream waits on entry for the stream around it, and
    that one waits for the side stream on exit, so that eager is always right; without CUDA it does nothing in eager.
    Raises ``UnknownStream`` where ``id`` is no non-negative int.
    """

    def __init__(self, id: int):
        check_stream_id("stream", "id", id)
        self.id = id
        # Of each time that it was entered in eager: what is to be restored.
        self._entered: list[tuple] = []

    def __enter__(self) -> None:
        if torch.compiler.is_compiling():
            torch.ops.anabranch.enter_stream(self.id)
        else:
            self._enter_eager()

    def __exit__(self, *exception: object) -> None:
        # In a function that Dynamo gives up on, it may compile this alone, for a context that was entered in eager.
        if torch.compiler.is_compiling() and not self._entered:
            torch.ops.anabranch.exit_stream()
        else:
            self._exit_eager()

    def _enter_eager(self) -> None:
        if not torch.cuda.is_available():
            return
        around = torch.cuda.current_stream()
        # Inside other contexts, 0 still means the stream that was current around the outermost.
        caller = getattr(_NESTING, "caller", None)
        _NESTING.caller = caller or around
        inside = _NESTING.caller if self.id == 0 else _pool_stream(around.device, self.id)
        inside.wait_stream(around)
        torch.cuda.set_stream(inside)
        self._entered.append((caller, around, inside))

    def _exit_eager(self) -> None:
        if self._entered:
            _NESTING.caller, around, inside = self._entered.pop()
            torch.cuda.set_stream(around)
            around.wait_stream(inside)


def _pool_stream(device: torch.device, id: int) -> torch.cuda.Stream:
    key = device.index, id
    if key not in _POOL:
        _POOL.setdefault(key, torch.cuda.Stream(device))
    return _POOL[key]
