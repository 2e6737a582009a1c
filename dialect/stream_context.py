"""``with anabranch.stream(i):``, a stream context that needs no CUDA."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from anabranch.dialect.torch_ops import check_stream_id

# The key under which an op's stream travels from Dynamo's graph to the functional graph. PyTorch's own key, "stream", makes
# AOTAutograd insert waits of its own, which are not complete; this one it only carries along.
STREAM_KEY = "anabranch.stream"

_POOL: dict[tuple[int, int], torch.cuda.Stream] = {}
_NESTING = threading.local()


def stream(id: int):
    """A context in which ops run on stream ``id``; 0 is the caller's current stream. Contexts nest, the innermost counts.

    Compiled, only the data flow orders streams. In eager on CUDA a side stream waits on entry for the stream around it, and
    that one waits for the side stream on exit, so that eager is always right; without CUDA it does nothing in eager.
    Raises ``UnknownStream`` where ``id`` is no non-negative int.
    """
    check_stream_id("stream", "id", id)
    if torch.compiler.is_compiling():
        return torch.fx.traceback.annotate({STREAM_KEY: id})
    return _eager(id)


@contextmanager
def _eager(id: int) -> Iterator[None]:
    if not torch.cuda.is_available():
        yield
        return
    around = torch.cuda.current_stream()
    # Inside other contexts, 0 still means the stream that was current around the outermost.
    caller = getattr(_NESTING, "caller", None)
    inside = (caller or around) if id == 0 else _pool_stream(around.device, id)
    _NESTING.caller = caller or around
    inside.wait_stream(around)
    try:
        with torch.cuda.stream(inside):
            yield
    finally:
        around.wait_stream(inside)
        _NESTING.caller = caller


def _pool_stream(device: torch.device, id: int) -> torch.cuda.Stream:
    key = device.index, id
    if key not in _POOL:
        _POOL.setdefault(key, torch.cuda.Stream(device))
    return _POOL[key]
