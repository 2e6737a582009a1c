"""The demo's model, weights in host memory and copied in beside the computation: eager and anabranch.

python benchmarks/demo.py [--out FOLDER]
"""

import argparse
from pathlib import Path

import torch
from record import RESULTS, microseconds, require_gpu, save, summary

import anabranch
from anabranch.demo import SENTENCES, TOLERANCE, model_folder
from anabranch.minilm import load, tokenize


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = require_gpu("demo.py")
    folder = model_folder()
    if folder is None:
        raise SystemExit("demo.py: the model's weights are not installed: run `make demo` first")
    model = load(folder, device)
    ids, mask = tokenize(folder, list(SENTENCES))
    mask = mask.to(device)
    figures = {}
    with torch.no_grad():
        expected = model(ids, mask)
        for name, function in {"eager": model, "anabranch": anabranch.compile(model)}.items():
            error = (function(ids, mask) - expected).abs().max().item()
            assert error <= TOLERANCE, f"{name} is wrong by {error}"
            figures[name] = summary(microseconds(lambda function=function: function(ids, mask)))
            print(f"{name:10} {figures[name]['median_us']:8.1f} us (spread {figures[name]['spread_us']:.1f})")
    report = anabranch.last_report()
    figures["compile_seconds"] = report.compile_seconds
    save("demo", "benchmarks/demo.py", figures, f"{len(SENTENCES)} sentences of up to {ids.shape[1]} tokens", options.out)


if __name__ == "__main__":
    main()
