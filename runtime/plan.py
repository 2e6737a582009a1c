"""Loads a plan from its file and runs it. Needs no MLIR."""

import importlib.util
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton

from anabranch.runtime.cuda import CudaRuntime, KeptMemory
from anabranch.runtime.simulate import SimulatedRuntime

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Plan:
    """A loaded plan: what it says of itself, and its function ``call``."""

    path: Path
    streams: dict[int, str]
    facts: dict[str, Any]
    call: Callable
    kept: KeptMemory = field(default_factory=KeptMemory)

    def run(
        self,
        args: Sequence[torch.Tensor],
        device: torch.device,
        user_streams: Mapping[int, torch.cuda.Stream] | None = None,
        seed: int = 0,
    ) -> tuple[torch.Tensor, ...]:
        """What the plan returns for ``args``, ready on the caller's current stream of ``device``.

        Without CUDA the streams are simulated, in the order that ``seed`` picks.
        """
        if device.type != "cuda":
            rt = SimulatedRuntime(self.streams, seed)
            results = self.call(rt, args)
            rt.finish()
            return results
        # Asking is cheaper than switching, and mostly enough.
        if torch.cuda.current_device() == device.index:
            return self._run_on_cuda(args, device, user_streams or {})
        with torch.cuda.device(device):
            return self._run_on_cuda(args, device, user_streams or {})

    def _run_on_cuda(
        self, args: Sequence[torch.Tensor], device: torch.device, user_streams: Mapping[int, torch.cuda.Stream]
    ) -> tuple[torch.Tensor, ...]:
        rt = CudaRuntime(device, user_streams, self.kept)
        try:
            return self.call(rt, args)
        except BaseException:
            rt.join()
            raise
        finally:
            rt.finish()


def load_plan(path: Path, device: torch.device) -> Plan:
    """The plan in the file ``path``, for tensors on ``device``: on a CPU its kernels run in Triton's interpreter."""
    # A name of its own, as Triton keeps kernels by the module's name.
    name = f"anabranch_plan_{next(_NUMBERS)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    before = triton.knobs.runtime.interpret
    # `triton.jit` reads this when it decorates.
    triton.knobs.runtime.interpret = device.type != "cuda"
    try:
        spec.loader.exec_module(module)
    finally:
        triton.knobs.runtime.interpret = before
    return Plan(path, module.STREAMS, module.FACTS, module.call)
