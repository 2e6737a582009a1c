"""The demo's model, weights in host memory and copied in beside the computation: eager and anabranch.

python benchmarks/demo.py [--out FOLDER] [--trace FILE] [--inductor]
"""

import argparse
from pathlib import Path

import torch
from overlap import profile
from record import RESULTS, microseconds, require_gpu, save, summary

import anabranch
from anabranch.demo import SENTENCES, TOLERANCE, model_folder
from anabranch.minilm import load, tokenize


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder for the figures")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="keep the profiler's trace of anabranch's calls")
    parser.add_argument("--inductor", action="store_true", help="time PyTorch's own compiler, too")
    options = parser.parse_args()
    device = require_gpu("demo.py")
    folder = model_folder()
    if folder is None:
        raise SystemExit("demo.py: the model's weights are not installed: run `make demo` first")
    model = load(folder, device)
    ids, mask = tokenize(folder, list(SENTENCES))
    mask = mask.to(device)
    functions = {"eager": model, "anabranch": anabranch.compile(model)}
    if options.inductor:
        functions["inductor"] = torch.compile(model)
    figures = {}
    with torch.no_grad():
        expected = model(ids, mask)
        for name, function in functions.items():
            error = (function(ids, mask) - expected).abs().max().item()
            # A wrong result's time would say nothing; of another compiler it is a finding, of this one a failure.
            if not error <= TOLERANCE:
                print(f"{name:10} wrong by {error:.1e}: not timed")
                figures[name] = {"error": error}
                continue
            figures[name] = summary(microseconds(lambda function=function: function(ids, mask))) | {"error": error}
            print(f"{name:10} {figures[name]['median_us']:8.1f} us (spread {figures[name]['spread_us']:.1f})")
        if options.trace is not None:
            profile(lambda: functions["anabranch"](ids, mask), options.trace)
            print(f"trace      {options.trace}")
    figures["compile_seconds"] = anabranch.last_report().compile_seconds
    save("demo", "benchmarks/demo.py", figures, f"{len(SENTENCES)} sentences of up to {ids.shape[1]} tokens", options.out)
    if "median_us" not in figures["anabranch"]:
        raise SystemExit("demo.py: anabranch's result is wrong")


if __name__ == "__main__":
    main()
