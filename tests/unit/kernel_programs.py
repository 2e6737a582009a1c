"""The way from a small torch program to its one Triton kernel, for tests."""

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path

import torch
import triton
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir import ir
from torch_mlir.extras.fx_importer import FxImporter

from anabranch.dialect import ops
from anabranch.dialect.layout import Layout
from anabranch.lowering.emit_triton import Kernel, emit_kernel
from anabranch.lowering.lower_kernels import lower_kernels

_MODULES = itertools.count()


def results(fn: Callable, args: list[torch.Tensor]) -> list[torch.Tensor]:
    """What ``fn`` returns in eager, made contiguous as the results of kernels are."""
    made = fn(*args)
    return [out.contiguous() for out in (made if isinstance(made, tuple) else (made,))]


def kernel_module(fn: Callable, args: list[torch.Tensor]) -> ir.Module:
    """A module with one kernel function @kernel_0 that does what ``fn`` does, in torch ops and with layouts."""
    graph = make_fx(fn)(*args)
    graph.graph.eliminate_dead_code()
    importer = FxImporter(context=ops.new_context())
    importer.import_stateless_graph(graph.graph, func_name="kernel_0")
    module = importer.module
    with module.context:
        func = module.body.operations[0].operation
        func.attributes["anabranch.kernel"] = ir.UnitAttr.get()
        func.attributes["sym_visibility"] = ir.StringAttr.get("private")
        for name, tensors in (("arg_attrs", args), ("res_attrs", results(fn, args))):
            texts = [ir.StringAttr.get(str(Layout.of(t))) for t in tensors]
            func.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get({"anabranch.layout": t}) for t in texts])
    return module


def emit(fn: Callable, args: list[torch.Tensor], target: str) -> Kernel:
    """The one kernel that ``fn`` becomes."""
    module = kernel_module(fn, args)
    lower_kernels(module)
    (func,) = module.body.operations
    return emit_kernel(func, target)


def load(kernel: Kernel, folder: Path, interpret: bool):
    """The kernel's function from a real file, as Triton requires, for its interpreter or for its compiler."""
    path = folder / f"{kernel.name}_{next(_MODULES)}.py"
    path.write_text(f"import triton\nimport triton.language as tl\n\n\n{kernel.source}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # `triton.jit` reads the knob when it decorates.
    before = triton.knobs.runtime.interpret
    triton.knobs.runtime.interpret = interpret
    try:
        spec.loader.exec_module(module)
    finally:
        triton.knobs.runtime.interpret = before
    return getattr(module, kernel.name)


def run(fn: Callable, args: list[torch.Tensor], folder: Path) -> list[torch.Tensor]:
    """The results of ``fn``'s kernel in Triton's interpreter; they start as garbage, so that a lost store shows."""
    kernel = emit(fn, args, "cpu")
    made = [torch.full_like(out, 77) for out in results(fn, args)]
    load(kernel, folder, interpret=True)[kernel.grid](*args, *made, **kernel.constants)
    return made
