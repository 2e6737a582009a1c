"""How long kernels of different streams ran at once, read from a trace of PyTorch's profiler."""

import json
import tempfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import torch


def profile(call: Callable, trace: Path | None = None, calls: int = 3) -> dict:
    """Profiles ``calls`` calls on a GPU and returns ``overlap`` of the trace, which is saved to ``trace`` if given."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = trace or Path(folder) / "trace.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(path))
        return overlap(json.loads(path.read_text())["traceEvents"], calls)


def overlap(events: list[dict], calls: int) -> dict:
    """Per call, in microseconds: how long kernels of two streams ran at once (each pair of streams counts), and how long
    each stream was busy with kernels. ``events`` are those of a chrome trace of ``calls`` calls."""
    spans: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        if event.get("cat") == "kernel":
            spans.setdefault(event["args"]["stream"], []).append((event["ts"], event["ts"] + event["dur"]))
    both = sum(
        max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
        for one, other in combinations(spans.values(), 2)
        for a in one
        for b in other
    )
    busy = {str(stream): sum(end - start for start, end in found) / calls for stream, found in sorted(spans.items())}
    return {"us_per_call": both / calls, "busy_us_by_stream": busy}
