"""The text of a pass pipeline, ``builtin.module(a,b{option=value},func.func(cse))``, split into its steps."""

import re
from dataclasses import dataclass

from anabranch.dialect.errors import AnabranchError

_WRAPPED = re.compile(r"\s*builtin\.module\s*\((.*)\)\s*$", re.DOTALL)
_NAME = re.compile(r"[\w.\-]+")
_CLOSING = {")": "(", "}": "{", "]": "["}


class PipelineSyntaxError(AnabranchError):
    """The text of a pass pipeline cannot be read."""

    message = "pass pipeline '{text}': {problem}. Write it as 'builtin.module(pass,other{{option=value}},func.func(cse))'"


@dataclass(frozen=True)
class Step:
    """One entry of a pipeline: its ``name``, and its whole ``text`` with options and nested passes."""

    name: str
    text: str

    @property
    def pipeline(self) -> str:
        """The pipeline that runs this step alone."""
        return f"builtin.module({self.text})"


def parse_pipeline(text: str) -> list[Step]:
    """The steps of ``text`` in order. Raises ``PipelineSyntaxError``; whether the passes exist is not looked at."""
    wrapped = _WRAPPED.match(text)
    if wrapped is None:
        raise PipelineSyntaxError(text=text, problem="it is not wrapped in 'builtin.module(...)'")
    steps = []
    for item in _split_at_commas(text, wrapped[1]):
        name = _NAME.match(item)
        if name is None:
            raise PipelineSyntaxError(text=text, problem=f"expected the name of a pass, found '{item}'")
        steps.append(Step(name[0], item))
    return steps


def _split_at_commas(text: str, inside: str) -> list[str]:
    """``inside`` split at the commas that stand in no bracket, each piece stripped."""
    if not inside.strip():
        return []
    pieces, open_brackets, start = [], [], 0
    for i, c in enumerate(inside):
        if c in _CLOSING.values():
            open_brackets.append(c)
        elif c in _CLOSING:
            if not open_brackets or open_brackets.pop() != _CLOSING[c]:
                raise PipelineSyntaxError(text=text, problem=f"'{c}' closes nothing")
        elif c == "," and not open_brackets:
            pieces.append(inside[start:i].strip())
            start = i + 1
    if open_brackets:
        raise PipelineSyntaxError(text=text, problem=f"'{open_brackets[-1]}' is never closed")
    return [*pieces, inside[start:].strip()]
