"""Five multi-stream programs in sizes for an H200: eager, anabranch, and anabranch in a CUDA graph of the caller's.

    python benchmarks/workloads.py [--out FOLDER] [NAME ...]

A recommender whose embeddings are looked up beside its MLP, a mixture of experts with a shared one, eight towers, a
transformer block whose attention and MLP read the same norm, and an elementwise pass over memory beside two products.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from record import RESULTS, microseconds, require_gpu, save, summary
from torch import Tensor, nn

import anabranch


class Dlrm(nn.Module):
    """A recommender as of Naumov et al. 2019: ``dense`` [rows, 13] and ``indices`` [tables, rows, lookups] to logits."""

    def __init__(self, tables: int = 26, entries: int = 100_000, width: int = 128):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(entries, width, mode="sum") for _ in range(tables)])
        self.bottom = mlp(13, 512, 256, width)
        pairs = torch.triu_indices(tables + 1, tables + 1, offset=1)
        self.register_buffer("pairs", pairs)
        self.top = nn.Sequential(mlp(width + pairs.shape[1], 1024, 1024, 512), nn.Linear(512, 1))

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        with anabranch.stream(1):
            x = self.bottom(dense)
        looked_up = [table(indices[i]) for i, table in enumerate(self.tables)]
        z = torch.stack([x, *looked_up], 1)
        products = torch.bmm(z, z.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], 1))


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers, each followed by a ReLU."""
    return nn.Sequential(*(layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())))


class SharedExpert(nn.Module):
    """Routed experts (all computed, few weighted) and one that every token passes, ``x`` [tokens, width]."""

    def __init__(self, width: int = 4096, inner: int = 1536, experts: int = 32, chosen: int = 4, shared: int = 4096):
        super().__init__()
        self.chosen = chosen
        shapes = {
            "gate": (experts, width),
            "up": (experts, 2 * inner, width),
            "down": (experts, width, inner),
            "shared_up": (2 * shared, width),
            "shared_down": (width, shared),
        }
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape) * 0.02))

    def forward(self, x: Tensor) -> Tensor:
        with anabranch.stream(1):
            a, b = F.linear(x, self.shared_up).chunk(2, -1)
            shared = F.linear(F.silu(a) * b, self.shared_down)
        scores = torch.softmax(F.linear(x, self.gate).float(), -1)
        values, indices = scores.topk(self.chosen, -1)
        weights = torch.zeros_like(scores).scatter(1, indices, values).to(x.dtype)
        a, b = torch.einsum("td,efd->etf", x, self.up).chunk(2, -1)
        routed = torch.einsum("etf,edf->etd", F.silu(a) * b, self.down)
        return (routed * weights.t().unsqueeze(-1)).sum(0) + shared


class Towers(nn.Module):
    """Independent towers on four streams, ``x`` [rows, width]."""

    def __init__(self, width: int = 512, towers: int = 8, layers: int = 6):
        super().__init__()
        block = lambda: (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())  # noqa: E731
        self.towers = nn.ModuleList([nn.Sequential(*(m for _ in range(layers) for m in block())) for _ in range(towers)])

    def forward(self, x: Tensor) -> Tensor:
        outputs = []
        for i, tower in enumerate(self.towers):
            with anabranch.stream(1 + i % 4):
                outputs.append(tower(x))
        return sum(outputs)


class ParallelBlock(nn.Module):
    """A transformer block as in GPT-J: attention and MLP read the same norm, ``x`` [1, tokens, width]."""

    def __init__(self, width: int = 2048, heads: int = 16):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        with anabranch.stream(1):
            m = self.down(F.gelu(self.up(h), approximate="tanh"))
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return x + self.out(a) + m


class MemoryBesideProducts(nn.Module):
    """An elementwise pass over ``v`` beside two products of matrices ``a`` and ``b``."""

    def forward(self, v: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        with anabranch.stream(1):
            m = torch.tanh(v * 1.5 + 0.3) * v
        return m, a @ b @ b


def programs(device: torch.device, small: bool = False) -> dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]]:
    """By name, what makes each model and its inputs in bfloat16; ``small`` for tests."""

    def on(module: nn.Module) -> nn.Module:
        return module.to(device, torch.bfloat16).eval()

    def randn(*shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(*shape, device=device) * scale).to(torch.bfloat16)

    rows, tables, entries = (4, 3, 50) if small else (2048, 26, 100_000)
    indices = lambda: torch.randint(0, entries, (tables, rows, 20), device=device)  # noqa: E731
    side = 32 if small else 4096
    return {
        "dlrm": lambda: (on(Dlrm(tables, entries, 16 if small else 128)), (randn(rows, 13), indices())),
        "moe_shared": lambda: (
            on(SharedExpert(32, 16, 4, 2, 32) if small else SharedExpert()),
            (randn(*((4, 32) if small else (64, 4096))),),
        ),
        "towers8": lambda: (on(Towers(32, 8, 2) if small else Towers()), (randn(*((4, 32) if small else (32, 512))),)),
        "parallel_block": lambda: (
            on(ParallelBlock(32, 2) if small else ParallelBlock()),
            (randn(1, *((4, 32) if small else (128, 2048))),),
        ),
        "mem_gemm": lambda: (
            MemoryBesideProducts(),
            (
                torch.randn(64 if small else 64 * 1024 * 1024, device=device),
                randn(side, side, scale=0.02),
                randn(side, side, scale=0.02),
            ),
        ),
    }


def in_a_graph(call: Callable) -> Callable:
    """``call`` captured in a CUDA graph, as a user would: the inputs' memory stays what it is."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()

    def replay():
        graph.replay()
        return result

    return replay


def check(result: Tensor | tuple[Tensor, ...], expected: Tensor | tuple[Tensor, ...]) -> None:
    """That each result is within what bfloat16 allows after some layers: 2% of the expected tensor's norm."""
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (result, expected))):
        error = ((a - b).float().norm() / b.float().norm()).item()
        assert error < 0.02, f"wrong by {error:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    device = require_gpu("workloads.py")
    torch.manual_seed(0)
    made = programs(device)
    figures = {}
    try:
        for name in options.names or made:
            figures[name] = measure(name, *made[name]())
    finally:
        # What was measured before one of them failed is kept.
        save("workloads", "benchmarks/workloads.py", figures, "bfloat16; host and GPU idle before each call", options.out)


def measure(name: str, model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, dict]:
    """The times of each way to call ``model``, results having been checked against eager's."""
    torch.compiler.reset()
    times = {}
    with torch.no_grad():
        compiled = anabranch.compile(model)
        calls = {"eager": lambda: model(*inputs), "anabranch": lambda: compiled(*inputs)}
        calls["anabranch in a CUDA graph"] = in_a_graph(calls["anabranch"])
        expected = calls["eager"]()
        for column, call in calls.items():
            check(call(), expected)
            times[column] = summary(microseconds(call))
            print(f"{name:15} {column:26} {times[column]['median_us']:8.1f} us")
    print(f"{name}:\n{anabranch.last_report()}\n")
    return times


if __name__ == "__main__":
    main()
