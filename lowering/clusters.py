"""Groups the ops of one region into clusters that may become one kernel each.

An op joins the cluster of a producer where both agree on device, rows and iteration space, and where the clusters still
form a graph without cycles ("convex": no path leaves a cluster and comes back into it).
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Node:
    """One op: the numbers of the ops it depends on, and what it asks of a kernel; ``space`` is None outside kernels.

    ``space`` is the shape that the op iterates over, ``row`` what ``kernel_ops.row_of`` says.
    """

    producers: tuple[int, ...]
    space: tuple[int, ...] | None = None
    row: tuple | None = None
    device: str = ""


def cluster(nodes: list[Node]) -> list[list[int]]:
    """The clusters of ``nodes``, which are in topological order, themselves in a topological order."""
    members = {i: [i] for i in range(len(nodes))}
    owner = list(range(len(nodes)))
    for i, node in enumerate(nodes):
        if node.space is None:
            continue
        for p in sorted({owner[p] for p in node.producers}, reverse=True):
            joined = sorted(members[p] + members[owner[i]])
            if p == owner[i] or not _agree([nodes[m] for m in joined]):
                continue
            if _leaves_and_returns(nodes, members, owner, {p, owner[i]}):
                continue
            del members[owner[i]]
            members[p] = joined
            for m in joined:
                owner[m] = p
    return _in_order(nodes, members, owner)


def _agree(nodes: list[Node]) -> bool:
    if any(n.space is None for n in nodes) or len({n.device for n in nodes}) != 1:
        return False
    rows = {n.row for n in nodes if n.row is not None}
    if len(rows) > 1:
        return False
    spaces = {n.space for n in nodes}
    if rows:
        # What follows a reduction that drops its dimensions iterates over the rows alone.
        kept = next(iter(rows))[0]
        spaces = {n.space for n in nodes if n.row is not None or tuple(s for s in n.space if s != 1) != kept} or spaces
    try:
        return tuple(torch.broadcast_shapes(*spaces)) in spaces
    except RuntimeError:
        return False


def _leaves_and_returns(nodes: list[Node], members: dict[int, list[int]], owner: list[int], joined: set[int]) -> bool:
    """Whether a path from one of the clusters ``joined`` goes through another cluster to one of them."""
    start = {o for j in joined for m in members[j] for p in nodes[m].producers if (o := owner[p]) not in joined}
    seen, stack = set(start), list(start)
    while stack:
        for m in members[stack.pop()]:
            for p in nodes[m].producers:
                if owner[p] in joined:
                    return True
                if owner[p] not in seen:
                    seen.add(owner[p])
                    stack.append(owner[p])
    return False


def _in_order(nodes: list[Node], members: dict[int, list[int]], owner: list[int]) -> list[list[int]]:
    order, done = [], set()

    def visit(key: int):
        if key in done:
            return
        done.add(key)
        for m in members[key]:
            for p in nodes[m].producers:
                visit(owner[p])
        order.append(members[key])

    for i in range(len(nodes)):
        visit(owner[i])
    return order
