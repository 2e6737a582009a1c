"""The whole way from value form to a plan, as a list on one screen."""

from collections.abc import Callable
from typing import Any

import torch
from torch_mlir import ir

from anabranch.dialect.layout import LAYOUT_ATTR, Layout
from anabranch.dialect.ops import functions
from anabranch.lowering.emit_plan import emit_plan
from anabranch.lowering.emit_triton import emit_kernel
from anabranch.lowering.facts import count, facts_of
from anabranch.lowering.lower_kernels import KERNEL_ATTR
from anabranch.lowering.passes import PASSES, run_pipeline

PIPELINE = f"builtin.module({','.join(PASSES)})"


def compile_module(
    module: ir.Module, dump: Callable[[str, str], None] = lambda name, text: None
) -> tuple[str, dict[str, Any]]:
    """The plan of a module in value form, as Python text, and its facts; ``module`` is rewritten on the way.

    ``dump`` gets the name and the text of each stage. Raises ``PassFailed`` where a pass refuses the program.
    """
    operation = module.operation
    counts = {}

    def after(step) -> None:
        if step.name == "form-regions":
            counts["regions"] = count(operation, "anabranch.region")
        elif step.name == "schedule":
            counts["waits_before"] = count(operation, "anabranch.wait_event")
        elif step.name == "elide-waits":
            counts["waits_after"] = count(operation, "anabranch.wait_event")
        dump(f"{step.name}.mlir", f"{operation}\n")

    dump("value-form.mlir", f"{operation}\n")
    run_pipeline(operation, PIPELINE, after=after)
    with operation.context:
        kernels = {}
        for function in functions(operation):
            if KERNEL_ATTR in function.operation.attributes:
                kernel = emit_kernel(function, _target(function.operation))
                kernels[kernel.name] = kernel
        facts = facts_of(operation) | counts
        plan = emit_plan(operation, kernels, facts)
    dump("plan.py", plan)
    return plan, facts


def _target(kernel: ir.Operation) -> str:
    """``cuda`` or ``cpu``: where the kernel's results lie."""
    layout = Layout.parse(ir.StringAttr(kernel.attributes["res_attrs"][0][LAYOUT_ATTR]).value)
    return torch.device(layout.device).type
