"""Simulated streams, for machines without a GPU: the same plan, with the worst order that its events allow.

Work is queued and runs when the call ends: one piece at a time, from any stream whose next piece does not wait for an event
that is still to come. Memory is filled with bytes that are no number before it is written and after it is freed. So a
missing wait, or memory reused too early, shows as a wrong number.
"""

import random
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from anabranch.dialect.errors import AnabranchError
from anabranch.dialect.torch_ops import tensor_results

_POISON = 0xFF


class Deadlock(AnabranchError):
    """A plan whose streams wait for each other."""

    message = "streams {streams} wait for events that no stream will record: the plan records them after the waits, or never"


class SimulatedRuntime:
    """One call of a plan on CPU tensors. ``seed`` picks the order.

    Even seeds run the streams by a fixed priority: one as far ahead, another as far behind as events allow. Odd seeds pick
    the stream anew for each piece of work. ``trace`` lists (stream, name) of the work in the order in which it ran.
    """

    def __init__(self, streams: dict[int, str], seed: int = 0):
        rng = random.Random(seed)
        order = rng.sample(sorted(streams), len(streams))
        self._pick = (lambda ready: min(ready, key=order.index)) if seed % 2 == 0 else rng.choice
        self._queues: dict[int, deque[tuple[str, Any, Callable[[], None] | None]]] = {i: deque() for i in streams}
        self._reached: set[int] = set()
        self._events = 0
        self._memory: list[torch.Tensor] = []
        self._outputs: list[torch.Tensor] = []
        self.trace: list[tuple[int, str]] = []

    def stream(self, id: int) -> int:
        """The handle of stream ``id``."""
        return id

    def record(self, stream: int) -> int:
        """An event reached when all work queued on ``stream`` so far has run."""
        self._events += 1
        self._queues[stream].append(("record", self._events, None))
        return self._events

    def wait(self, stream: int, event: int) -> None:
        """Holds back what is queued on ``stream`` from now on until ``event``."""
        self._queues[stream].append(("wait", event, None))

    def memory(self, buffers: Callable[[Any], tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
        """What the plan's function ``buffers`` makes; each call gets memory of its own here."""
        return buffers(self)

    def arena(self, device: str, nbytes: int) -> torch.Tensor:
        """Memory for this call's buffers, poisoned now and when the call ends."""
        arena = _poison(torch.empty(nbytes, dtype=torch.uint8, device=device))
        self._memory.append(arena)
        return arena

    def buffer(self, arena: torch.Tensor, offset: int, shape, stride, dtype: torch.dtype) -> torch.Tensor:
        """A tensor in the arena's bytes from ``offset`` on."""
        return _in_bytes(arena, offset, shape, stride, dtype)

    def output(self, shape, stride, dtype: torch.dtype, device: str) -> torch.Tensor:
        """A tensor of its own for the caller, poisoned."""
        nbytes = (sum((n - 1) * s for n, s in zip(shape, stride)) + 1) * dtype.itemsize if 0 not in shape else 0
        output = _in_bytes(_poison(torch.empty(nbytes, dtype=torch.uint8, device=device)), 0, shape, stride, dtype)
        self._outputs.append(output)
        return output

    def launch(self, stream: int, kernel, grid: tuple[int, ...], *tensors: torch.Tensor, **constants: int) -> None:
        """Queues a Triton kernel, which runs in Triton's interpreter."""

        def work() -> None:
            with warnings.catch_warnings():
                # Lanes beyond a tensor's end compute on garbage that is never stored.
                warnings.filterwarnings("ignore", category=RuntimeWarning, module="numpy|triton")
                warnings.simplefilter("ignore", RuntimeWarning)
                kernel[grid](*tensors, **constants)

        self._queues[stream].append(("work", kernel.__name__, work))

    def call(self, stream: int, op, *args, **kwargs) -> None:
        """Queues a PyTorch op that writes into tensors among its arguments."""
        self._queues[stream].append(("work", str(op), lambda: op(*args, **kwargs)))

    def call_new(self, stream: int, places: list[tuple], op, *args, **kwargs) -> tuple[torch.Tensor, ...]:
        """Queues a PyTorch op that allocates its results; returns tensors of ``places`` that will hold them."""
        results = tuple(self.output(*place) for place in places)

        def work() -> None:
            for result, value in zip(results, tensor_results(op, op(*args, **kwargs)), strict=True):
                if value is not None:
                    # Some ops' shapes are not those that PyTorch says beforehand, where nobody uses the result.
                    result.resize_(value.shape).copy_(value)

        self._queues[stream].append(("work", str(op), work))
        return results

    def finish(self) -> None:
        """Runs everything. Results are what they are when stream 0 is done: later work is too late. Raises ``Deadlock``."""
        seen = None
        while any(self._queues.values()):
            if seen is None and not self._queues[0]:
                seen = [output.clone() for output in self._outputs]
            ready = [i for i, queue in self._queues.items() if queue and self._can_run(queue[0])]
            if not ready:
                raise Deadlock(streams=", ".join(str(i) for i, queue in self._queues.items() if queue))
            stream = self._pick(ready)
            kind, what, work = self._queues[stream].popleft()
            if kind == "record":
                self._reached.add(what)
            elif kind == "work":
                work()
                self.trace.append((stream, what))
        for output, value in zip(self._outputs, seen or []):
            output.copy_(value)
        for memory in self._memory:
            _poison(memory)

    def _can_run(self, item: tuple) -> bool:
        return item[0] != "wait" or item[1] in self._reached


def _poison(memory: torch.Tensor) -> torch.Tensor:
    return memory.fill_(_POISON)


def _in_bytes(memory: torch.Tensor, offset: int, shape, stride, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), offset // dtype.itemsize, shape, stride)
