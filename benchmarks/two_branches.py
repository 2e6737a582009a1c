"""Two long branches on two streams: eager, Inductor and anabranch, and how long kernels of both streams overlap.

python benchmarks/two_branches.py [--out FOLDER]
"""

import argparse
from pathlib import Path

import torch
from record import RESULTS, microseconds, require_gpu, save, summary

import anabranch


def two_branches(x, v, w):
    with anabranch.stream(1):
        side = x
        for _ in range(4):
            side = torch.softmax(side @ w, dim=-1)
    main = v
    for _ in range(4):
        main = torch.relu(main @ w)
    return side + main


def overlap_us(call, path: Path) -> tuple[float, dict[int, float]]:
    """Microseconds during which kernels of two streams ran at once in one call, and the busy time of each stream."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    ) as trace:
        for _ in range(3):
            call()
        torch.cuda.synchronize()
    trace.export_chrome_trace(str(path))
    kernels: dict[int, list[tuple[float, float]]] = {}
    for event in _kernels(path):
        kernels.setdefault(event["args"]["stream"], []).append((event["ts"], event["ts"] + event["dur"]))
    busy = {stream: sum(end - start for start, end in spans) for stream, spans in kernels.items()}
    streams = sorted(busy, key=busy.get)[-2:]
    if len(streams) < 2:
        return 0.0, busy
    overlap = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in kernels[streams[0]] for b in kernels[streams[1]])
    return overlap / 3, busy


def _kernels(path: Path) -> list[dict]:
    import json

    events = json.loads(path.read_text())["traceEvents"]
    return [e for e in events if e.get("cat") == "kernel"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    require_gpu("two_branches.py")
    torch.manual_seed(0)
    # Small enough that one product does not fill the GPU, so that there is something to overlap.
    x, v = torch.randn(256, 4096, device="cuda"), torch.randn(256, 4096, device="cuda")
    w = torch.randn(4096, 4096, device="cuda") / 64
    compiled = {
        "eager": two_branches,
        "inductor": torch.compile(two_branches),
        "anabranch": anabranch.compile(two_branches),
    }
    figures = {}
    with torch.no_grad():
        expected = two_branches(x, v, w)
        for name, function in compiled.items():
            torch.testing.assert_close(function(x, v, w), expected, rtol=1e-3, atol=1e-3)
            figures[name] = summary(microseconds(lambda function=function: function(x, v, w)))
            print(f"{name:10} {figures[name]['median_us']:8.1f} us (spread {figures[name]['spread_us']:.1f})")
        options.out.mkdir(parents=True, exist_ok=True)
        overlap, busy = overlap_us(lambda: compiled["anabranch"](x, v, w), options.out / "trace.json")
    figures["overlap"] = {"us_per_call": overlap, "busy_us_by_stream": busy}
    print(f"kernels of two streams ran at once for {overlap:.1f} us of a call; busy by stream: {busy}")
    save(
        "two-branches",
        "benchmarks/two_branches.py",
        figures,
        "one call at a time, host and GPU idle before each",
        options.out,
    )


if __name__ == "__main__":
    main()
