"""Checks diagnostics against ``expected-error@+1 {{text}}`` comments, in the notation of ``mlir-opt --verify-diagnostics``.

A comment expects one diagnostic of its severity whose message contains the text, on its own line, ``@+n`` or ``@-n``
lines away, at the next (``@below``) or last (``@above``) line that holds no expectation, or anywhere (``@unknown``).
"""

import re
from dataclasses import dataclass

from anabranch.dialect.errors import AnabranchError
from anabranch.lowering.diagnostics import Diagnostic

_MEANT = re.compile(r"//.*expected-\w+\s*@?[\w+\-]*\s*\{\{?")
_EXPECTATION = re.compile(r"expected-(error|warning|note|remark)\s*(?:@(\+\d+|-\d+|above|below|unknown))?\s*\{\{(.*?)\}\}")


class UnreadableExpectation(AnabranchError):
    """A comment looks like an expectation and is none: what it means to check would never be checked."""

    message = "'{comment}' expects nothing: write it as 'expected-error@+1 {{{{text}}}}' (or warning, note, remark)"


@dataclass(frozen=True)
class Expectation:
    """One comment: the severity, the line on which it expects it (0: anywhere), the text, and the comment's own line."""

    severity: str
    line: int
    text: str
    written_at: int

    def accepts(self, diagnostic: Diagnostic) -> bool:
        return self.severity == diagnostic.severity and self.line in (0, diagnostic.line) and self.text in diagnostic.message


def parse_expectations(lines: list[str], first_line: int = 1) -> list[Expectation]:
    """The expectations in the comments of ``lines``, the first of which is line ``first_line`` of its file.

    Raises ``UnreadableExpectation``.
    """
    for i, line in enumerate(lines):
        if _MEANT.search(line) and not _EXPECTATION.search(line):
            raise UnreadableExpectation(comment=line.strip(), where=f"line {i + first_line}")
    return [
        Expectation(match[1], _target(lines, i, match[2], first_line), match[3], i + first_line)
        for i, line in enumerate(lines)
        for match in _EXPECTATION.finditer(line)
    ]


def _target(lines: list[str], i: int, designator: str | None, first_line: int) -> int:
    if designator == "unknown":
        return 0
    if designator in ("above", "below"):
        step = 1 if designator == "below" else -1
        while 0 <= i + step < len(lines):
            i += step
            if not _EXPECTATION.search(lines[i]):
                break
    elif designator:
        i += int(designator)
    return i + first_line


def check_expectations(expectations: list[Expectation], diagnostics: list[Diagnostic], file: str) -> list[str]:
    """What differs, one message each; empty if each expectation has its own diagnostic and no other error or warning came.

    Notes and remarks need not be expected.
    """
    unmatched = list(expectations)
    problems = []
    for diagnostic in diagnostics:
        match = next((e for e in unmatched if e.accepts(diagnostic)), None)
        if match is not None:
            unmatched.remove(match)
        elif diagnostic.severity in ("error", "warning"):
            problems.append(f"unexpected {diagnostic}")
    for e in unmatched:
        place = f"on line {e.line}" if e.line else "anywhere"
        problems.append(f"{file}:{e.written_at}: expected {e.severity} '{e.text}' {place} was not produced")
    return problems
