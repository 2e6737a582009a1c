"""Gives an explicit graph a signature of tensors only, which is what MLIR functions and plans have."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from anabranch.dialect.capture import place
from anabranch.dialect.errors import UnsupportedOp


@dataclass(frozen=True)
class Signature:
    """How a graph is called: ``constants`` are passed after its arguments, and what it returns is put into ``results``.

    An entry of ``results`` is the number of a computed result, or ``(value,)`` for what is known when compiling.
    """

    constants: list[torch.Tensor]
    results: list[int | tuple[Any]]
    arguments: list[int]

    def arguments_of(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """The tensors to call the plan with, where the graph is called with ``args``."""
        return [*(args[i] for i in self.arguments), *self.constants]

    def results_of(self, computed: Sequence[torch.Tensor]) -> list[Any]:
        """What the graph returns where the plan returned ``computed``."""
        return [computed[r] if isinstance(r, int) else r[0] for r in self.results]


def flatten(gm: GraphModule) -> Signature:
    """Rewrites ``gm`` in place so that it takes and returns tensors only: its constants become arguments."""
    graph = gm.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    arguments = [i for i, node in enumerate(placeholders) if isinstance(node.meta.get("val"), torch.Tensor)]
    constants = []
    behind = placeholders[-1] if placeholders else None
    for node in [n for n in graph.nodes if n.op == "get_attr"]:
        value = operator.attrgetter(node.target)(gm)
        if not isinstance(value, torch.Tensor):
            raise UnsupportedOp(op=f"'{node.name}'", reason=f"it is a constant {type(value).__name__}", where=place(node))
        with graph.inserting_after(behind) if behind else graph.inserting_before(next(iter(graph.nodes))):
            behind = graph.placeholder(f"constant_{len(constants)}")
        behind.meta["val"] = node.meta.get("val", value)
        node.replace_all_uses_with(behind)
        graph.erase_node(node)
        constants.append(value)
    for i, node in enumerate(placeholders):
        if i not in arguments:
            # A size is a number by now.
            if node.users:
                raise UnsupportedOp(op=f"'{node.name}'", reason="it is an argument that is no tensor", where=place(node))
            graph.erase_node(node)
    output = next(node for node in graph.nodes if node.op == "output")
    returned = list(output.args[0]) if isinstance(output.args[0], tuple | list) else [output.args[0]]
    computed = list(dict.fromkeys(x for x in returned if isinstance(x, Node)))
    results = [computed.index(x) if isinstance(x, Node) else (x,) for x in returned]
    output.args = (tuple(computed),)
    gm.recompile()
    return Signature(constants, results, arguments)
