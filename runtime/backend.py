"""The ``torch.compile`` backend "anabranch": from Dynamo's graph to a plan that runs on streams."""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from anabranch.dialect import torch_compat
from anabranch.dialect.capture import Captured, capture, place
from anabranch.dialect.errors import AnabranchError, TrainingNotSupported
from anabranch.dialect.explicit import make_explicit
from anabranch.dialect.flatten import Signature, flatten
from anabranch.dialect.layout import Layout
from anabranch.runtime.cache import PlanCache, cache_dir, process_folder
from anabranch.runtime.options import Options
from anabranch.runtime.plan import Plan, load_plan
from anabranch.runtime.report import Report, remember

_GRAPHS = itertools.count()


class UnsupportedDevices(AnabranchError):
    """A program on devices that one plan cannot run on."""

    message = (
        "the program's tensors are on {devices}: a compiled function works on one CUDA device and the CPU, or the CPU alone"
    )


def anabranch(
    graph: GraphModule, inputs: Sequence[Any], *, options: dict[str, Any] | None = None, mode: None = None
) -> Callable:
    """Compiles Dynamo's ``graph``; ``options`` are those of ``runtime.options.Options``.

    Work of stream 0 runs on the stream that is current at each call, and when the call returns all side work is ordered
    before what comes next on that stream; the host does not wait. Raises ``TrainingNotSupported`` where gradients would be
    needed, and the errors of ``dialect.errors`` for what the program says of streams.
    """
    chosen = Options.of(options)
    start = time.perf_counter()
    needing = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    if needing and torch.is_grad_enabled():
        raise TrainingNotSupported(count=len(needing))
    folder = None if chosen.dump_dir is None else Path(chosen.dump_dir) / f"graph_{next(_GRAPHS)}"
    dump = _Dump(folder)
    dump("annotated-graph.txt", graph.print_readable(print_output=False))
    captured = capture(graph, inputs)
    compiler = _Compiler(captured, chosen, dump, start)
    return torch_compat.inference_backend(compiler.compile)(captured.graph, inputs)


def compile(function: Callable | None = None, **options: Any) -> Callable:
    """``torch.compile(function, backend="anabranch", options=options)``; also as a decorator, with or without options."""
    if function is None:
        return lambda f: compile(f, **options)
    Options.of(options)
    return torch.compile(function, backend=anabranch, options=options or None)


class _Dump:
    """Writes each stage's text into a folder, numbered in order; without a folder it does nothing."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._number = itertools.count()

    def __call__(self, name: str, text: str) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{next(self._number):02}-{name}").write_text(text)


@dataclass(frozen=True)
class _Compiler:
    """Compiles the functional graphs of one captured program."""

    captured: Captured
    options: Options
    dump: _Dump
    start: float

    def compile(self, gm: GraphModule, inputs: Sequence[Any]) -> Callable:
        """The function to call in place of ``gm``. Sizes that are known only at the call get a plan each."""
        if not torch_compat.has_symbols(gm):
            return self._compile_static(gm)
        compiled: dict[tuple, Callable] = {}

        def call(*args: Any) -> Any:
            key = tuple((tuple(a.shape), tuple(a.stride())) if isinstance(a, torch.Tensor) else a for a in args)
            if key not in compiled:
                compiled[key] = self._compile_static(torch_compat.specialize(gm, args))
            return compiled[key](*args)

        return call

    def _compile_static(self, gm: GraphModule) -> Callable:
        device = _device(gm)
        make_explicit(gm)
        self.dump("explicit-graph.txt", gm.print_readable(print_output=False))
        signature = flatten(gm)
        plan, cache = self._plan(gm, device)
        report = Report.of(
            plan.facts,
            compile_seconds=time.perf_counter() - self.start,
            cache=cache,
            plan=str(plan.path),
            dump_dir=None if self.dump.folder is None else str(self.dump.folder),
        )
        remember(report)
        return self._caller(plan, signature, device)

    def _plan(self, gm: GraphModule, device: torch.device) -> tuple[Plan, str]:
        """The plan of a flat explicit graph, and how the cache took part."""
        cache = PlanCache(cache_dir())
        key = cache.key(_text(gm), repr(sorted(self.captured.streams.items())), str(device))
        if self.options.cache and self.dump.folder is None and (path := cache.get(key)) is not None:
            return load_plan(path, device), "hit"
        # MLIR is loaded only where something is to be compiled.
        from anabranch.dialect.import_fx import import_graph
        from anabranch.lowering.pipeline import compile_module

        text, _ = compile_module(import_graph(gm, self.captured.streams), self.dump)
        if self.options.cache:
            return load_plan(cache.put(key, text), device), "miss"
        return load_plan(PlanCache(process_folder()).put(key, text), device), "off"

    def _caller(self, plan: Plan, signature: Signature, device: torch.device) -> Callable:
        captured, seed = self.captured, self.options.seed

        def call(*args: Any) -> list[Any]:
            for event in _alive(captured.entry_events, torch.Event):
                torch.cuda.current_stream(device).wait_event(event)
            users = {i: s for i, number in captured.user_streams.items() for s in _alive([number], torch.Stream)}
            results = plan.run(signature.arguments_of(args), device, users, seed)
            for event in _alive(captured.exit_events, torch.Event):
                event.record(torch.cuda.current_stream(device))
            return signature.results_of(results)

        return call


def _alive(numbers: Iterable[int], kind: type) -> list[Any]:
    """The streams or events that Dynamo calls ``numbers``, those left out that are gone: nobody waits for them any more.

    Dynamo keeps them in one table a process. A call that another thread comes between may find others there; a pool stream
    then does as well as a user's.
    """
    return [x for x in map(torch_compat.dynamo_object, numbers) if isinstance(x, kind)]


def _device(gm: GraphModule) -> torch.device:
    """The CUDA device that the graph works on, or the CPU. Raises ``UnsupportedDevices``."""
    values = [x for node in gm.graph.nodes for x in _tensors(node.meta.get("val"))]
    devices = {x.device for x in values}
    others = devices - {torch.device("cpu")}
    if len(others) > 1 or any(d.type != "cuda" for d in others):
        raise UnsupportedDevices(devices=", ".join(sorted(map(str, devices))))
    return others.pop() if others else torch.device("cpu")


def _tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in (value if isinstance(value, list | tuple) else [value]) if isinstance(x, torch.Tensor)]


def _text(gm: GraphModule) -> str:
    """All that a plan is made from: the ops, where each value lies, and the lines named in comments.

    Where results lie is for the ops to say, and an op of the user's may say something else in another process.
    """
    lines = []
    for node in gm.graph.nodes:
        layouts = [str(Layout.of(x)) for x in _tensors(node.meta.get("val"))]
        lines.append(f"{node.name} {node.op} {node.target} {node.args} {node.kwargs} {layouts} {place(node)}")
    return "\n".join(lines)
