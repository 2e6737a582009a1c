"""``anabranch-opt``: reads MLIR, runs passes on it and prints the result.

Exits with 0; with 1 where the input, the pipeline, a pass or an expected diagnostic is at fault; with 2 where the command
line is. Says which on standard error.
"""

import argparse
import shlex
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path

from torch_mlir import ir

from anabranch.dialect.definition import verify
from anabranch.dialect.errors import AnabranchError
from anabranch.dialect.ops import new_context
from anabranch.lowering.diagnostics import Diagnostic, collect
from anabranch.lowering.expected_diagnostics import check_expectations, parse_expectations
from anabranch.lowering.passes import PASSES, PassFailed, run_pipeline, summary
from anabranch.lowering.pipeline_syntax import Step

SEPARATOR = "// -----"


def _parser(show_help: bool) -> argparse.ArgumentParser:
    """The command line; the passes' sentences are read only where they are shown, to start fast."""
    parser = argparse.ArgumentParser(prog="anabranch-opt", description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("input", nargs="?", default="-", help="file to read; '-', the default, is standard input")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="file to write instead of standard output")
    parser.add_argument(
        "--pass-pipeline",
        metavar="PIPELINE",
        help="passes to run, of anabranch and of MLIR: 'builtin.module(verify-streams,func.func(cse))'",
    )
    parser.add_argument(
        "--split-input-file", action="store_true", help=f"treat each part between '{SEPARATOR}' lines as an input of its own"
    )
    parser.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="check the diagnostics against 'expected-error@+1 {{...}}' comments and print no IR",
    )
    parser.add_argument(
        "--mlir-print-ir-after-all", action="store_true", help="print the IR to standard error after each pass"
    )
    passes = parser.add_argument_group("passes of anabranch, run in the order given")
    for name in PASSES:
        text = summary(name).replace("%", "%%") if show_help else None
        passes.add_argument(f"--{name}", dest="passes", action="append_const", const=name, default=[], help=text)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs the tool on ``argv`` (default: the command line) and returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser(show_help=bool({"-h", "--help"} & set(argv)))
    options = parser.parse_args(argv)
    if options.passes and options.pass_pipeline:
        parser.error("give either --pass-pipeline or single passes")
    pipeline = options.pass_pipeline or f"builtin.module({','.join(options.passes)})"
    try:
        source = sys.stdin.read() if options.input == "-" else Path(options.input).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        print(f"anabranch-opt: cannot read '{options.input}': {reason}", file=sys.stderr)
        return 1
    tool = _Tool(source, "<stdin>" if options.input == "-" else options.input, pipeline, options)
    try:
        outputs = [tool.run(lines, first_line) for lines, first_line in _parts(source, options.split_input_file)]
    except AnabranchError as error:
        print(f"anabranch-opt: {error}", file=sys.stderr)
        return 1
    if not options.verify_diagnostics:
        text = f"{SEPARATOR}\n".join(output for output in outputs if output is not None)
        try:
            sys.stdout.write(text) if options.output == "-" else Path(options.output).write_text(text)
        except OSError as error:
            print(f"anabranch-opt: cannot write '{options.output}': {error.strerror}", file=sys.stderr)
            return 1
    return 1 if tool.failed else 0


def _parts(source: str, split: bool) -> list[tuple[list[str], int]]:
    """The inputs in ``source``, each as its lines and the number of its first line."""
    parts = [([], 1)]
    for number, line in enumerate(source.splitlines(), 1):
        if split and line.strip() == SEPARATOR:
            parts.append(([], number + 1))
        else:
            parts[-1][0].append(line)
    return parts


class _Tool:
    """One run of the tool over the parts of its input; ``failed`` is set by the first part that fails."""

    def __init__(self, source: str, file: str, pipeline: str, options: argparse.Namespace):
        self.source = source.splitlines()
        self.file = file
        self.pipeline = pipeline
        self.options = options
        self.failed = False

    def run(self, lines: list[str], first_line: int) -> str | None:
        """Runs the pipeline on one part; returns the resulting IR, or None if that failed."""
        context = new_context()
        # Diagnostics call back into Python, which the threads of MLIR's pass manager would have to wait for.
        context.enable_multithreading(False)
        # Blank lines in front give each diagnostic its line in the whole file.
        module, diagnostics = _parse("\n" * (first_line - 1) + "\n".join(lines), context)
        untouched, failure = module, None

        def before(step: Step):
            nonlocal untouched
            untouched = module.clone()

        def after(step: Step):
            if self.options.mlir_print_ir_after_all:
                print(f"// -----// IR Dump After {step.text} //----- //\n{module}\n", file=sys.stderr)

        if module is not None:
            try:
                diagnostics += run_pipeline(module, self.pipeline, before, after)
            except PassFailed as error:
                failure = error
                diagnostics += error.diagnostics
        diagnostics = [replace(d, file=self.file) if d.file == "-" else d for d in diagnostics]
        if self.options.verify_diagnostics:
            problems = check_expectations(parse_expectations(lines, first_line), diagnostics, self.file)
            self.failed |= bool(problems)
            print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
            return None
        for diagnostic in diagnostics:
            print(diagnostic.render(self.file, self.source), file=sys.stderr)
        if failure is not None:
            _print_repeat_command(failure, untouched)
        if failure is not None or module is None:
            self.failed = True
            return None
        return f"{module}\n"


def _parse(text: str, context: ir.Context) -> tuple[ir.Operation | None, list[Diagnostic]]:
    """The module in ``text``, or None, and the diagnostics of reading it."""
    with collect(context) as diagnostics:
        try:
            module = ir.Module.parse(text, context).operation
        except ir.MLIRError:
            return None, diagnostics
        return module if verify(module) else None, diagnostics


def _print_repeat_command(failure: PassFailed, module: ir.Operation):
    step, cause = failure.step, failure.__cause__
    if cause is not None and not isinstance(cause, AnabranchError):
        # A defect in the pass: whoever repairs it needs to know where.
        traceback.print_exception(cause)
    with tempfile.NamedTemporaryFile("w", prefix=f"{step.name}-", suffix=".mlir", delete=False) as file:
        file.write(f"{module}\n")
    print(
        f"anabranch-opt: pass '{step.name}' failed; its input was written to {file.name}. To repeat:\n"
        f"  anabranch-opt --pass-pipeline={shlex.quote(step.pipeline)} {shlex.quote(file.name)}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
