"""MLIR diagnostics as plain records, collected while they are emitted and printed the way compilers print them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir

# A location may be nested (named, fused, a call site): the first file, line and column in its text is where the user looks.
_FILE_LINE_COLUMN = re.compile(r'"([^"]*)":(\d+):(\d+)')
_SEVERITIES = {
    ir.DiagnosticSeverity.ERROR: "error",
    ir.DiagnosticSeverity.WARNING: "warning",
    ir.DiagnosticSeverity.NOTE: "note",
    ir.DiagnosticSeverity.REMARK: "remark",
}


@dataclass(frozen=True)
class Diagnostic:
    """One message of severity ``error``, ``warning``, ``note`` or ``remark``; ``line`` is 0 where the place is unknown."""

    severity: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self):
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else ""
        return f"{place}{self.severity}: {self.message}"

    def render(self, file: str, source: list[str]) -> str:
        """The message, and where it speaks of ``file``, of lines ``source``, its line with a caret under the column."""
        if self.file != file or not 0 < self.line <= len(source):
            return str(self)
        return f"{self}\n{source[self.line - 1]}\n{' ' * (self.column - 1)}^"


def _record(diagnostic) -> Diagnostic:
    place = _FILE_LINE_COLUMN.search(str(diagnostic.location))
    file, line, column = (place[1], int(place[2]), int(place[3])) if place else ("", 0, 0)
    return Diagnostic(_SEVERITIES[diagnostic.severity], str(diagnostic.message).rstrip(), file, line, column)


@contextmanager
def collect(context: ir.Context) -> Iterator[list[Diagnostic]]:
    """Yields a list that receives every diagnostic emitted in ``context`` until the end of the block, notes included.

    The diagnostics reach nobody else. Errors that MLIR's Python bindings would put into an exception come here as well.
    """
    found: list[Diagnostic] = []

    def handle(diagnostic) -> bool:
        found.append(_record(diagnostic))
        found.extend(_record(note) for note in diagnostic.notes)
        return True

    before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True
    handler = context.attach_diagnostic_handler(handle)
    try:
        yield found
    finally:
        handler.detach()
        context.emit_error_diagnostics = before
