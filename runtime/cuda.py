"""Streams, events and memory of one call of a plan on CUDA.

What makes it safe for any number of threads and of calling streams at once:

- Stream 0 is the caller's current stream, looked up at each call. Side streams are shared by all calls: every plan makes
  them wait for the caller's stream first, and the caller's stream for them at the end.
- The results are memory of the caller's stream. The buffers are, too, and are kept for its next call: on that stream it
  is ordered after this call's side work. Calls that overlap on the host, or come from other streams, have buffers of their
  own. So no ``record_stream``, and no host wait.
- Events come from a free list. A wait holds what the event meant when the wait was issued, so an event can be recorded
  anew as soon as the call that used it has been issued, whether or not the GPU has come to it.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import torch

from anabranch.dialect.torch_ops import tensor_results

_POOL: dict[tuple[int, int], torch.cuda.Stream] = {}
# Compiled kernels, bound to their grid, by what Triton specializes them for.
_RUNNERS: dict[tuple, tuple[Callable, tuple[int, ...]]] = {}
# Triton specializes a kernel for pointers that are multiples of this many bytes.
_ALIGNMENT = 16
_EVENTS: dict[int, deque[torch.cuda.Event]] = {}


class KeptMemory:
    """The buffers of a plan between calls, by the stream that called; each is in use by one call at a time."""

    # More streams than this at once are rare, and memory is not.
    LIMIT = 4

    def __init__(self):
        self._free: list[tuple[torch.cuda.Stream, tuple[torch.Tensor, ...]]] = []
        self._lock = threading.Lock()

    def take(self, stream: torch.cuda.Stream) -> tuple[torch.Tensor, ...] | None:
        """Buffers that an earlier call on ``stream`` left, if no other call has them."""
        with self._lock:
            for i, (owner, tensors) in enumerate(self._free):
                if owner == stream:
                    del self._free[i]
                    return tensors
        return None

    def give_back(self, stream: torch.cuda.Stream, tensors: tuple[torch.Tensor, ...]) -> None:
        """Keeps ``tensors`` for the next call on ``stream``; the longest unused go back to the allocator."""
        with self._lock:
            self._free.append((stream, tensors))
            del self._free[: -self.LIMIT]


class CudaRuntime:
    """One call on ``device``; ``user_streams`` are the user's stream objects by id, ``kept`` what earlier calls left."""

    def __init__(self, device: torch.device, user_streams: Mapping[int, torch.cuda.Stream], kept: "KeptMemory"):
        self._device = device
        self._kept = kept
        self._leases: KeptMemory | None = None
        self._leased: tuple[torch.Tensor, ...] | None = None
        self._caller = self._current = torch.cuda.current_stream(device)
        self._user_streams = user_streams
        self._free = _EVENTS.setdefault(device.index, deque())
        self._used: list[torch.cuda.Event] = []
        self._side: list[torch.cuda.Stream] = []
        self._typed: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def stream(self, id: int) -> torch.cuda.Stream:
        """The CUDA stream of ``id``."""
        if id == 0:
            return self._caller
        stream = self._user_streams.get(id)
        if stream is None:
            key = self._device.index, id
            # setdefault, as two threads may come here at once.
            stream = _POOL.get(key) or _POOL.setdefault(key, torch.cuda.Stream(self._device))
        self._side.append(stream)
        return stream

    def record(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        """An event after all work given to ``stream`` so far."""
        try:
            event = self._free.pop()
        except IndexError:
            event = torch.cuda.Event()
        event.record(stream)
        self._used.append(event)
        return event

    def wait(self, stream: torch.cuda.Stream, event: torch.cuda.Event) -> None:
        """Makes what ``stream`` is given from now on start after ``event``."""
        stream.wait_event(event)

    def memory(self, buffers: Callable[[Any], tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
        """What the plan's function ``buffers`` makes, or made for an earlier call on the same stream."""
        # What is made during a capture belongs to the captured graph.
        self._leases = None if torch.cuda.is_current_stream_capturing() else self._kept
        tensors = None if self._leases is None else self._leases.take(self._caller)
        if tensors is None:
            # Tensors made in inference mode could not be written outside of it.
            with torch.inference_mode(False):
                tensors = buffers(self)
        self._leased = tensors
        return tensors

    def arena(self, device: str, nbytes: int) -> torch.Tensor:
        """Memory for buffers, of the caller's stream; plans ask for it before any work."""
        return torch.empty(nbytes, dtype=torch.uint8, device=device)

    def buffer(self, arena: torch.Tensor, offset: int, shape, stride, dtype: torch.dtype) -> torch.Tensor:
        """A tensor in the arena's bytes from ``offset`` on."""
        key = arena.data_ptr(), dtype
        typed = self._typed.get(key)
        if typed is None:
            # The arena's size is a multiple of any element's.
            typed = self._typed[key] = arena.view(dtype)
        return typed.as_strided(shape, stride, offset // dtype.itemsize)

    def output(self, shape, stride, dtype: torch.dtype, device: str) -> torch.Tensor:
        """A tensor of its own for the caller."""
        return torch.empty_strided(shape, stride, dtype=dtype, device=device)

    def launch(
        self, stream: torch.cuda.Stream, kernel, grid: tuple[int, ...], *tensors: torch.Tensor, **constants: int
    ) -> None:
        """Launches a Triton kernel.

        Triton looks for the right specialization at each launch, for tens of microseconds. Here shapes and dtypes are
        fixed: only whether all pointers are aligned can differ, and for those that are the compiled kernel is kept.
        """
        key = kernel, grid, self._device.index
        runner = _RUNNERS.get(key)
        if runner is not None and _all_aligned(tensors):
            launch, values = runner
            launch(*tensors, *values, stream=stream.cuda_stream)
            return
        self._go_to(stream)
        compiled = kernel[grid](*tensors, **constants)
        if _all_aligned(tensors):
            _RUNNERS[key] = compiled[_three(grid)], tuple(constants[name] for name in kernel.arg_names[len(tensors) :])

    def call(self, stream: torch.cuda.Stream, op, *args, **kwargs) -> None:
        """Calls a PyTorch op that writes into tensors among its arguments."""
        self._go_to(stream)
        op(*args, **kwargs)

    def call_new(self, stream: torch.cuda.Stream, places: list[tuple], op, *args, **kwargs) -> tuple[torch.Tensor, ...]:
        """Calls a PyTorch op that allocates its results in memory of ``stream``, and returns them."""
        self._go_to(stream)
        return tuple(tensor_results(op, op(*args, **kwargs)))

    def join(self) -> None:
        """Orders all side work before what comes next on the caller's stream, for a call that did not come to its end."""
        for stream in self._side:
            self._caller.wait_stream(stream)

    def finish(self) -> None:
        """Makes the caller's stream current again; to be called however the call ends."""
        self._go_to(self._caller)
        self._free.extend(self._used)
        if self._leased is not None and self._leases is not None:
            self._leases.give_back(self._caller, self._leased)

    def _go_to(self, stream: torch.cuda.Stream) -> None:
        # Switching costs more than asking: work mostly follows work of the same stream.
        if stream is not self._current:
            torch.cuda.set_stream(stream)
            self._current = stream


def _all_aligned(tensors: tuple[torch.Tensor, ...]) -> bool:
    return all(t.data_ptr() % _ALIGNMENT == 0 for t in tensors)


def _three(grid: tuple[int, ...]) -> tuple[int, int, int]:
    return (*grid, 1, 1)[:3]
