"""Measuring on a GPU, and the JSON files that keep the figures."""

import json
import platform
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median

import torch
import triton

RESULTS = Path(__file__).parent / "results"


def require_gpu(script: str) -> torch.device:
    """The current CUDA device; ends the process with a message where there is none."""
    if not torch.cuda.is_available():
        raise SystemExit(f"{script}: needs a CUDA GPU: it measures time on streams, which a CPU only simulates")
    return torch.device("cuda", torch.cuda.current_device())


def microseconds(call: Callable, repeats: int = 7, calls: int = 50) -> list[float]:
    """For each repeat the median time of a call, from its first to its last work on the current stream."""
    for _ in range(10):
        call()
    medians = []
    for _ in range(repeats):
        times = []
        for _ in range(calls):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1000)
        medians.append(median(times))
    return medians


def save(name: str, script: str, figures: dict, notes: str, folder: Path = RESULTS) -> Path:
    """Writes ``figures`` with the date, the GPU and the versions; prints and returns the file."""
    gpu = torch.cuda.get_device_name()
    path = folder / f"{date.today()}-{gpu.replace(' ', '-')}-torch{torch.__version__.split('+')[0]}-{name}.json"
    content = {
        "date": str(date.today()),
        "gpu": gpu,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "script": script,
        "notes": notes,
        "figures": figures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written to {path}")
    return path


def summary(medians: list[float]) -> dict:
    """The repeats' medians, the median of them and their spread, in microseconds."""
    return {"median_us": median(medians), "spread_us": max(medians) - min(medians), "repeats_us": medians}
