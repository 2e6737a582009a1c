"""Emits a schedule as a readable Python module: the Triton kernels, ``buffers`` with the memory of a call, and ``call`` with
the work in host order.

Who knows CUDA can follow it without knowing this project: names are ``a0`` for arguments, ``b0`` for buffers, ``v0`` for
views, ``e0`` for events and ``s0`` for streams, and a comment at each piece of work says what it computes and which line of
the program it is from. ``runtime/plan.py`` runs it.
"""

import os
import pprint
import re
from typing import Any

from torch_mlir import ir

from anabranch.dialect.layout import Layout
from anabranch.dialect.ops import stream_table
from anabranch.lowering.aten_call import overload
from anabranch.lowering.facts import launched_ops, main_function
from anabranch.lowering.schedule_form import ARENA_ATTR, ON_STREAM, WORK, layout_of, operations, root, space_of, stream_of
from anabranch.lowering.triton_text import Kernel

_HEADER = '''"""What one compiled program runs, in the order in which the host issues it. Written by anabranch.

A stream runs the work that it is given in order; different streams run side by side. Launches and calls give work to a
stream and return at once. `rt.record(s)` gives an event, reached when all work given to stream s so far is done.
`rt.wait(s, e)` makes the work that stream s is given from then on start after event e. Stream 0 is the caller's.
"""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten
'''
_BUFFERS = '"""A call\'s memory, which later calls on the same stream use again. No bytes are in use twice at once."""'
_FILE_AND_LINE = re.compile(r'"([^"]+\.py)":(\d+)')
# A string, which stays as it is, or an operand's number.
_STRING_OR_OPERAND = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|%(\d+)""")


def emit_plan(module: ir.Operation, kernels: dict[str, Kernel], facts: dict[str, Any]) -> str:
    """The plan of a module in schedule form, with the ``kernels`` it launches by name; ``facts`` go along as ``FACTS``."""
    streams = stream_table(module) or {0: "current"}
    parts = [_HEADER, f"STREAMS = {streams!r}\nFACTS = {pprint.pformat(facts, width=120, sort_dicts=False)}\n"]
    parts += [f"\n{kernel.source.strip()}\n" for kernel in kernels.values()]
    main = main_function(module)
    parts += ["\n" + "\n".join(lines) + "\n" for lines in _Body(main, kernels).functions()]
    return "\n".join(parts)


class _Body:
    """Writes the functions ``buffers`` and ``call``."""

    def __init__(self, function: ir.OpView, kernels: dict[str, Kernel]):
        self._function = function
        self._kernels = kernels
        self._names: dict[ir.Value, str] = {}
        self._counts: dict[str, int] = {}

    def functions(self) -> list[list[str]]:
        """The lines of each function."""
        ops = operations(self._function)
        memory = [
            op for op in ops if op.name in ("anabranch.alloc", "anabranch.view") and space_of(root(op.results[0])) == "arena"
        ]
        functions = [_function("buffers(rt)", self._buffers(memory))] if memory else []
        return [*functions, _function("call(rt, args)", self._call(ops, memory))]

    def _buffers(self, memory: list[ir.Operation]) -> list[str]:
        arena = {entry.name: ir.IntegerAttr(entry.attr).value for entry in self._function.operation.attributes[ARENA_ATTR]}
        arenas = {device: f"arena{i or ''}" for i, device in enumerate(arena)}
        lines = [_BUFFERS]
        lines += [f"{arenas[device]} = rt.arena({device!r}, {nbytes})" for device, nbytes in arena.items()]
        for op in memory:
            if op.name == "anabranch.view":
                lines.append(self._view(op))
                continue
            layout = layout_of(op.results[0], self._function)
            place = f"{op.attributes['offset'].value}, {layout.shape}, {layout.stride}, {layout.dtype}"
            lines.append(f"{self._name(op.results[0], 'b')} = rt.buffer({arenas[layout.device]}, {place})")
        return [*lines, f"return {self._list(memory)}"]

    def _list(self, memory: list[ir.Operation]) -> str:
        return _tuple([self._names[x] for op in memory for x in op.results])

    def _call(self, ops: list[ir.Operation], memory: list[ir.Operation]) -> list[str]:
        arguments = [self._name(x, "a") for x in self._function.operation.regions[0].blocks[0].arguments]
        body = [f"{_tuple(arguments, bare=True)} = args"] if arguments else []
        streams = sorted({0} | {stream_of(op) for op in ops if op.name in ON_STREAM})
        body += [f"s{i} = rt.stream({i})" for i in streams]
        body += [f"{self._list(memory)} = rt.memory(buffers)"] if memory else []
        body += self._own_memory([op for op in ops if op.name == "anabranch.alloc"])
        for op in ops:
            if op.name == "anabranch.view":
                # Those of buffers have their names by now.
                if not any(x in self._names for x in op.results):
                    body.append(self._view(op))
            elif op.name == "anabranch.launch":
                body.append(self._launch(op) + _comment(op))
            elif op.name == "anabranch.call_extern":
                body.append(self._call_extern(op) + _comment(op))
            elif op.name == "anabranch.record_event":
                body.append(f"{self._name(op.results[0], 'e')} = rt.record(s{stream_of(op)})")
            elif op.name == "anabranch.wait_event":
                body.append(f"rt.wait(s{stream_of(op)}, {self._names[op.operands[0]]})")
        results = [self._names[x] for x in ops[-1].operands]
        body.append(f"return {_tuple(results)}")
        return body

    def _name(self, value: ir.Value, stem: str) -> str:
        number = self._counts.get(stem, 0)
        self._counts[stem] = number + 1
        self._names[value] = f"{stem}{number}"
        return self._names[value]

    def _own_memory(self, allocs: list[ir.Operation]) -> list[str]:
        """The results' memory, made before any work; what ops allocate themselves is only named."""
        lines = []
        for alloc in allocs:
            if space_of(alloc.results[0]) == "arena":
                continue
            name = self._name(alloc.results[0], "b")
            if space_of(alloc.results[0]) == "output":
                lines.append(f"{name} = rt.output{_place(layout_of(alloc.results[0], self._function))}")
        return lines

    def _view(self, op: ir.Operation) -> str:
        results = [self._name(x, "v") for x in op.results]
        operands = [self._names[x] for x in op.operands]
        call = f"{_op(op)}({_fill(ir.StringAttr(op.attributes['arguments']).value, operands)})"
        (returned, *_) = overload(ir.StringAttr(op.attributes["callee"]).value)._schema.returns
        returns_list = len(results) > 1 or str(returned.real_type).startswith("List")
        return f"{_tuple(results, bare=True) if returns_list else results[0]} = {call}"

    def _launch(self, op: ir.Operation) -> str:
        kernel = self._kernels[op.attributes["callee"].value]
        tensors = ", ".join(self._names[x] for x in op.operands)
        constants = "".join(f", {name}={value}" for name, value in kernel.constants.items())
        return f"rt.launch(s{stream_of(op)}, {kernel.name}, {kernel.grid}, {tensors}{constants})"

    def _call_extern(self, op: ir.Operation) -> str:
        view = op.opview
        given, outputs = [self._names[x] for x in view.inputs], [self._names[x] for x in view.outputs]
        arguments = _fill(ir.StringAttr(op.attributes["arguments"]).value, given)
        head = f"s{stream_of(op)}, "
        if ir.StringAttr(op.attributes["convention"]).value == "return":
            places = [_place(layout_of(x, self._function)) for x in view.outputs]
            results = f"{_tuple(outputs, bare=True)} = " if outputs else ""
            return f"{results}rt.call_new({head}[{', '.join(places)}], {_op(op)}{_after_comma(arguments)})"
        target = overload(ir.StringAttr(op.attributes["callee"]).value)
        names = [a.name for a in target._schema.arguments if a.is_out]
        if not names:
            # copy_ and the like: the result is the first argument.
            return f"rt.call({head}{_op(op)}, {', '.join(outputs)}{_after_comma(arguments)})"
        outs = ", ".join(f"{name}={value}" for name, value in zip(names, outputs, strict=True))
        return f"rt.call({head}{_op(op)}{_after_comma(arguments)}, {outs})"


def _function(signature: str, body: list[str]) -> list[str]:
    return [f"def {signature}:", *(f"    {line}" for line in body)]


def _op(op: ir.Operation) -> str:
    callee = ir.StringAttr(op.attributes["callee"]).value
    return callee if callee.startswith("aten.") else f"torch.ops.{callee}"


def _fill(arguments: str, operands: list[str]) -> str:
    return _STRING_OR_OPERAND.sub(lambda match: match[1] or operands[int(match[2])], arguments)


def _after_comma(arguments: str) -> str:
    return f", {arguments}" if arguments else ""


def _place(layout: Layout) -> str:
    return f"({layout.shape}, {layout.stride}, {layout.dtype}, {layout.device!r})"


def _tuple(names: list[str], bare: bool = False) -> str:
    text = ", ".join(names) + ("," if len(names) == 1 else "")
    return text if bare else f"({text})"


def _comment(op: ir.Operation) -> str:
    """What a piece of work computes and where that is written."""
    ops = ", ".join(dict.fromkeys(name.removeprefix("aten.") for name in launched_ops(op)))
    found = _FILE_AND_LINE.search(str(op.location)) if op.name in WORK else None
    line = f"{os.path.basename(found[1])}:{found[2]}" if found else ""
    text = "  ".join(x for x in (ops, line) if x)
    return f"  # {text}" if text else ""
