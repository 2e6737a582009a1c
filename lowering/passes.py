"""The passes of this project by name, and how a pipeline of them and of MLIR's own passes is run.

A pass is a function from a module to nothing that rewrites the module in place; it is named like its file, whose docstring
opens with the sentence that help shows. On bad input a pass emits an error diagnostic at the op concerned.
"""

import ast
import difflib
import importlib
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from anabranch.dialect.definition import verify
from anabranch.dialect.errors import AnabranchError
from anabranch.lowering.diagnostics import Diagnostic, collect
from anabranch.lowering.pipeline_syntax import PipelineSyntaxError, Step, parse_pipeline

# In the order in which a compile runs them. Modules are imported when first run, so that the tool starts fast.
PASSES = {
    "raise-stream-ops": "anabranch.dialect.raise_stream_ops",
    "verify-streams": "anabranch.lowering.verify_streams",
    "legalize-streams": "anabranch.lowering.legalize_streams",
    "form-regions": "anabranch.lowering.form_regions",
    "form-kernels": "anabranch.lowering.form_kernels",
    "lower-kernels": "anabranch.lowering.lower_kernels",
    "schedule": "anabranch.lowering.schedule",
    "elide-waits": "anabranch.lowering.elide_waits",
    "plan-memory": "anabranch.lowering.plan_memory",
    "verify-schedule": "anabranch.lowering.verify_schedule",
}

# MLIR does not list its passes to Python: these are offered when a name is close to one of them.
_MLIR_PASSES = ("canonicalize", "cse", "inline", "symbol-dce", "linalg-fuse-elementwise-ops", "linalg-generalize-named-ops")
_UNKNOWN_TO_MLIR = re.compile(r"'([^']*)' does not refer to a registered pass")


class UnknownPass(AnabranchError):
    """A pipeline names a pass that neither this project nor MLIR has."""

    message = "unknown pass '{name}'{hint} ('anabranch-opt --help' lists the passes of anabranch)"


class PassFailed(AnabranchError):
    """A pass refused its input or raised an error, which is then the cause of this one.

    ``diagnostics`` are the records that say why, ``step`` is the pass's entry in the pipeline.
    """

    message = "pass '{name}' failed{reasons}"

    def __init__(self, step: Step, diagnostics: list[Diagnostic]):
        self.step = step
        self.diagnostics = diagnostics
        super().__init__(name=step.name, reasons="".join(f"\n  {d}" for d in diagnostics))


def summary(name: str) -> str:
    """The first sentence of the docstring of pass ``name``, read without importing its module."""
    path = importlib.util.find_spec(PASSES[name]).origin
    docstring = ast.get_docstring(ast.parse(Path(path).read_text()))
    sentence = docstring.split("\n\n")[0].replace("\n", " ")
    return sentence.split(". ")[0].rstrip(".") + "."


def load_pass(name: str) -> Callable[[ir.Operation], None]:
    """The function of pass ``name``."""
    return getattr(importlib.import_module(PASSES[name]), name.replace("-", "_"))


def run_pipeline(
    module: ir.Operation | ir.Module,
    text: str,
    before: Callable[[Step], None] = lambda step: None,
    after: Callable[[Step], None] = lambda step: None,
) -> list[Diagnostic]:
    """Runs the pipeline ``text`` on ``module`` in place, calling ``before`` and ``after`` around each step.

    Returns the diagnostics that are no errors. Raises ``PassFailed`` at the first failing pass, ``UnknownPass``
    before anything has run.
    """
    module = module.operation
    with module.context, module.location:
        steps = [(step, _runner(step)) for step in parse_pipeline(text)]
        remarks = []
        for step, run in steps:
            before(step)
            remarks += _run_step(module, step, run)
            after(step)
    return remarks


def _runner(step: Step) -> Callable[[ir.Operation], None]:
    """The function that runs ``step``: a pass of this project, or a pass manager with the one pass of MLIR."""
    if step.name in PASSES:
        if step.text != step.name:
            raise PipelineSyntaxError(text=step.pipeline, problem=f"pass '{step.name}' takes no options")
        return lambda module: load_pass(step.name)(module)
    try:
        return PassManager.parse(step.pipeline).run
    except ValueError as error:
        # MLIR names the pass that it does not know, which may be nested in this step.
        unknown = _UNKNOWN_TO_MLIR.search(str(error))
        if unknown is None:
            reasons = "; ".join(line for line in str(error).splitlines() if line.strip())
            raise PipelineSyntaxError(text=step.pipeline, problem=reasons) from None
    raise UnknownPass(name=unknown[1], hint=_hint(unknown[1]))


def _hint(name: str) -> str:
    if name in PASSES:
        return " inside another pass: passes of anabranch run on a whole module, write it in 'builtin.module(...)'"
    near = difflib.get_close_matches(name, [*PASSES, *_MLIR_PASSES], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _run_step(module: ir.Operation, step: Step, run: Callable[[ir.Operation], None]) -> list[Diagnostic]:
    with collect(module.context) as diagnostics:
        try:
            run(module)
            module.verify()
            verify(module)
        except ir.MLIRError:
            # Its text is the diagnostics that were collected.
            raise PassFailed(step, diagnostics) from None
        except Exception as error:
            reason = str(error) if isinstance(error, AnabranchError) else f"{type(error).__name__}: {error}"
            raise PassFailed(step, [*diagnostics, Diagnostic("error", reason)]) from error
    if any(d.severity == "error" for d in diagnostics):
        raise PassFailed(step, diagnostics)
    return diagnostics
