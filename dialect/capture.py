"""Takes streams out of Dynamo's graph, before AOTAutograd sees it: contexts become a private key, synchronizations go.

Data flow says which op needs which, so waits between ops need not be kept. What data flow does not say is kept at the
call's ends, where it costs one event each and is never too weak:

- work that the caller put on a user's stream before the call, or puts there after it, is ordered with the call;
- an event that the program waits for but does not record itself is waited for when the call begins;
- an event that it records is recorded when the call's work is done.

A host wait cannot be kept so, and is refused.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.fx import GraphModule, Node

from anabranch.dialect import torch_compat
from anabranch.dialect.errors import UnsupportedSync, WrongDevice
from anabranch.dialect.stream_context import STREAM_KEY

_DYNAMO_KEY = "stream"
_BOUNDARIES = ("anabranch::fork_stream", "anabranch::join_stream")
# Per kind of synchronization, its names as an op of torch.ops.streams and as a method (torch 2.11).
_RECORDS = ("record_event", "record")
_WAITS = ("wait_event", "wait")
_DROPPED = ("wait_stream", "record_stream", "sync_dealloc", "fork", "join")
_HOST = ("synchronize", "synchronize_event", "synchronize_stream", "synchronize_device", "query")


@dataclass
class Captured:
    """A graph without streams but for ``STREAM_KEY`` on nodes, and what its streams are.

    ``streams`` says of each id whether it is ``current``, ``pool`` or ``user``; ``user_streams`` are Dynamo's numbers of
    the user's stream objects by id; ``entry_events`` and ``exit_events`` Dynamo's numbers of the events to wait for when a
    call begins, and to record when it ends.
    """

    graph: GraphModule
    streams: dict[int, str]
    user_streams: dict[int, int] = field(default_factory=dict)
    entry_events: list[int] = field(default_factory=list)
    exit_events: list[int] = field(default_factory=list)


def capture(graph: GraphModule, inputs: Sequence[object]) -> Captured:
    """Rewrites Dynamo's ``graph`` and the bodies of its higher-order ops in place.

    Raises ``UnsupportedSync`` and ``WrongDevice``.
    """
    _apply_contexts(graph, None)
    bodies = [module for module in graph.modules() if isinstance(module, GraphModule)]
    nodes = [node for body in bodies for node in body.graph.nodes]
    for node in nodes:
        _normalize_boundary(node)
    pool = {i for node in nodes for i in _pool_ids(node)}
    captured = Captured(graph, {0: "current"} | {i: "pool" for i in sorted(pool - {0})})
    numbers = _UserStreams(captured, _devices(nodes, inputs))
    for node in nodes:
        custom = node.meta.get("custom") or {}
        if _DYNAMO_KEY in custom:
            rest = {key: value for key, value in custom.items() if key != _DYNAMO_KEY}
            node.meta["custom"] = {STREAM_KEY: numbers.id_of(custom[_DYNAMO_KEY], node)} | rest
    for node in nodes:
        _keep_what_outlives_the_call(node, captured, numbers)
    for node in reversed(nodes):
        if _sync_name(node) is not None or torch_compat.is_object_lookup(node) and not node.users:
            node.replace_all_uses_with(None)
            node.graph.erase_node(node)
    for body in bodies:
        body.recompile()
    return captured


@dataclass(frozen=True)
class _Context:
    """An ``anabranch.stream(id)`` that was entered where Dynamo's key had the value ``around``."""

    id: int
    around: int | None


def _apply_contexts(gm: GraphModule, inherited: _Context | None) -> None:
    """Puts ``STREAM_KEY`` on what stands between the marks of ``anabranch.stream``, which go; in bodies, too.

    A body inherits the context around its op: AOTAutograd puts some bodies in the op's place. Inside ``anabranch.stream``
    a ``torch.cuda.stream`` is the inner one where it is not the one that was there on entry, and then keeps its key.
    """
    entered = [] if inherited is None else [inherited]
    for node in list(gm.graph.nodes):
        name = torch_compat.op_name(node)
        around = (node.meta.get("custom") or {}).get(_DYNAMO_KEY)
        if name == "anabranch::enter_stream":
            entered.append(_Context(_known(node.args[0]), around))
            gm.graph.erase_node(node)
        elif name == "anabranch::exit_stream":
            # After a graph break inside a context, Dynamo may compile its exit alone; the context's ops ran eagerly then.
            if entered:
                entered.pop()
            gm.graph.erase_node(node)
        elif entered and node.op != "placeholder" and around == entered[-1].around:
            rest = {key: value for key, value in (node.meta.get("custom") or {}).items() if key != _DYNAMO_KEY}
            # In a body that several ops share, the first of them has seen its marks.
            node.meta["custom"] = {STREAM_KEY: entered[-1].id} | rest
        for x in node.all_input_nodes:
            if x.op == "get_attr" and isinstance(body := getattr(gm, x.target, None), GraphModule):
                _apply_contexts(body, entered[-1] if entered else None)


def _known(id: int | Node) -> int:
    """A stream's id as a number. Dynamo makes a symbol of an id that changed between calls; asking for it adds a guard."""
    return int(id.meta["example_value"]) if isinstance(id, Node) else id


_HERE = str(Path(__file__).parent)
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"


def _normalize_boundary(node: Node) -> None:
    """Makes the arguments of a fork or join positional, its ids numbers, and its place in the source the user's call."""
    if torch_compat.op_name(node) not in _BOUNDARIES:
        return
    given = dict(zip(("xs", "source", "target"), node.args)) | node.kwargs
    node.args = (given["xs"], _known(given["source"]), _known(given["target"]))
    node.kwargs = {}
    if trace := node.meta.get("stack_trace"):
        frames = re.split(r'^(?=\s*File ")', trace, flags=re.MULTILINE)
        node.meta["stack_trace"] = "".join(frame for frame in frames if f'File "{_HERE}' not in frame)


def place(node: Node) -> str | None:
    """The user's line that made ``node``, not PyTorch's that it called: ``model.py:12: y = x + 1``."""
    frames = re.findall(r'File "(.*)", line (\d+).*\n?(.*)', node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_TORCH)] or frames
    return "{}:{}: {}".format(*map(str.strip, own[-1])) if own else None


def _pool_ids(node: Node) -> Iterable[int]:
    """The stream ids of this project that ``node`` speaks of."""
    custom = node.meta.get("custom") or {}
    if STREAM_KEY in custom:
        yield custom[STREAM_KEY]
    if torch_compat.op_name(node) in _BOUNDARIES:
        yield from node.args[1:]


def _devices(nodes: list[Node], inputs: Sequence[object]) -> set[torch.device]:
    values = [*inputs, *(node.meta.get("example_value") for node in nodes)]
    return {x.device for x in values if isinstance(x, torch.Tensor)}


class _UserStreams:
    """Gives the user's streams ids behind those of the pool; streams with one handle are one."""

    def __init__(self, captured: Captured, devices: set[torch.device]):
        self._captured = captured
        self._devices = devices
        self._ids: dict[object, int] = {}

    def id_of(self, number: int, node: Node) -> int:
        """The id of the stream that Dynamo calls ``number`` at ``node``."""
        if torch_compat.is_current_stream(number):
            return 0
        stream = torch_compat.dynamo_object(number)
        # A stream that is made in the function exists only when it is called: each is one of its own.
        key = number if stream is None else (stream.device, stream.stream_id)
        if key not in self._ids:
            if stream is not None:
                self._check_device(stream.device, node)
            self._ids[key] = max(self._captured.streams) + 1
            self._captured.streams[self._ids[key]] = "user"
            self._captured.user_streams[self._ids[key]] = number
        return self._ids[key]

    def _check_device(self, device: torch.device, node: Node) -> None:
        if (device.type, device.index or 0) not in {(d.type, d.index or 0) for d in self._devices}:
            known = sorted(str(d) for d in self._devices if d.type == device.type) or sorted(map(str, self._devices))
            raise WrongDevice(stream_device=device, devices=", ".join(known) or "no device", where=place(node))


def _sync_name(node: Node) -> str | None:
    """The name of the synchronization that ``node`` is, if it is one."""
    if torch_compat.op_name(node).startswith("streams::"):
        return torch_compat.op_name(node).removeprefix("streams::")
    if node.op == "call_method" and node.args and isinstance(node.args[0], Node):
        first = node.args[0]
        if node.target == "record_stream":
            return node.target
        if torch_compat.is_object_lookup(first) or _sync_name(first) in _RECORDS:
            return node.target
    return None


def _keep_what_outlives_the_call(node: Node, captured: Captured, numbers: _UserStreams) -> None:
    name = _sync_name(node)
    if name is None:
        return
    if name in _HOST:
        raise UnsupportedSync(call=name, where=place(node))
    objects = [number for x in node.args if (number := _number(x)) is not None]
    for number in objects:
        if isinstance(torch_compat.dynamo_object(number), torch.Stream):
            numbers.id_of(number, node)
    events = [number for number in objects if isinstance(torch_compat.dynamo_object(number), torch.Event)]
    if name in _WAITS:
        captured.entry_events += [n for n in events if n not in captured.exit_events and n not in captured.entry_events]
    elif name in _RECORDS:
        captured.exit_events += [n for n in events if n not in captured.exit_events]
    elif name not in _DROPPED:
        raise UnsupportedSync(call=name, where=place(node))


def _number(argument: object) -> int | None:
    """Dynamo's number in an argument of a synchronization: written as such, or looked up by a node."""
    if isinstance(argument, Node):
        return argument.args[0] if torch_compat.is_object_lookup(argument) else None
    return argument if isinstance(argument, int) and not isinstance(argument, bool) else None
