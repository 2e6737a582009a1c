"""Two long branches on two streams: eager, Inductor and anabranch, and how long kernels of both streams ran at once.

python benchmarks/two_branches.py [--out FOLDER] [--trace FILE]
"""

import argparse
from pathlib import Path

import torch
from overlap import profile
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder for the figures")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="keep the profiler's trace of anabranch's calls")
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
        figures["overlap"] = profile(lambda: compiled["anabranch"](x, v, w), options.trace)
    busy = ", ".join(f"{us:.1f} us on {stream}" for stream, us in figures["overlap"]["busy_us_by_stream"].items())
    print(f"overlap    {figures['overlap']['us_per_call']:8.1f} us of a call with kernels of two streams; busy: {busy}")
    if options.trace is not None:
        print(f"trace      {options.trace}")
    save(
        "two-branches",
        "benchmarks/two_branches.py",
        figures,
        "one call at a time, host and GPU idle before each",
        options.out,
    )


if __name__ == "__main__":
    main()
