"""Which loops of a kernel's linalg ops are the same loop: dimension classes, found by union-find through indexing maps.

A kernel function is a list of ``linalg.generic`` ops, each with loops of its own. Where a value made by one is read
by another, the loop that wrote a dimension and the loop that reads it must be one loop of the Triton kernel. A *class*
is a set of such loops, named by a small integer. Loops and dimensions of extent 1 have no class (``None``).
"""

import math
from dataclasses import dataclass

from torch_mlir import ir


class Unsupported(Exception):
    """The function cannot become one Triton kernel; the text says why. Its ops then run as extern calls."""


@dataclass(frozen=True)
class ArgView:
    """A function argument seen through reshapes: one size and one stride (in elements) for each dimension."""

    arg: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass
class LoopClasses:
    """The classes of one function.

    ``sizes``: class -> extent; ``order``: all classes, outermost first; ``reduced``: the classes some op reduces over;
    ``views``: values that are arguments seen through reshapes.
    """

    sizes: dict[int, int]
    order: list[int]
    reduced: list[int]
    views: dict[ir.Value, ArgView]
    _class_of: dict

    def of_loop(self, op: ir.Operation, loop: int) -> int | None:
        return self._class_of.get((op, loop))

    def of_value(self, value: ir.Value) -> tuple[int | None, ...]:
        """The class of each dimension of ``value``."""
        return tuple(self._class_of.get((value, d)) for d in range(len(shape_of(value))))

    def of_operand(self, op: ir.Operation, index: int) -> tuple[int | None, ...]:
        """The class of each dimension of operand ``index`` of a generic op, where that op reads it."""
        return tuple(None if loop is None else self.of_loop(op, loop) for loop in operand_loops(op, index))


def shape_of(value: ir.Value) -> tuple[int, ...]:
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType):
        raise Unsupported(f"a value of type {type_}")
    if not type_.has_static_shape:
        raise Unsupported(f"a dynamic shape: {type_}")
    return tuple(type_.shape)


def operand_loops(op: ir.Operation, index: int) -> tuple[int | None, ...]:
    """For each dimension of operand ``index``, the loop that runs over it, or None where it has one element only."""
    loops = []
    for dim, expr in enumerate(op.attributes["indexing_maps"][index].value.results):
        if isinstance(expr, ir.AffineDimExpr):
            loops.append(expr.position)
        elif shape_of(op.operands[index])[dim] == 1:
            loops.append(None)
        else:
            raise Unsupported(f"an index that is not a loop: {expr}")
    return tuple(loops)


def iterator_is_reduction(op: ir.Operation) -> list[bool]:
    return ["reduction" in str(kind) for kind in op.attributes["iterator_types"]]


def loop_extents(op: ir.Operation) -> list[int]:
    """The extent of each loop of a generic op, from the shapes of its operands."""
    extents = [0] * len(op.attributes["iterator_types"])
    for index, operand in enumerate(op.operands):
        for loop, size in zip(operand_loops(op, index), shape_of(operand)):
            if loop is not None:
                extents[loop] = size
    return extents


def reassociation(op: ir.Operation) -> list[list[int]]:
    """The dimensions of the larger shape that each dimension of the smaller one stands for."""
    return [[ir.IntegerAttr(i).value for i in group] for group in op.attributes["reassociation"]]


class _Sets:
    """Union-find whose members are (value, dimension) and (op, loop)."""

    def __init__(self):
        self.parent: dict = {}
        self.size: dict = {}

    def add(self, key, size: int) -> None:
        if size != 1:
            self.parent.setdefault(key, key)
            self.size[key] = size

    def find(self, key):
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def union(self, a, b) -> None:
        if a in self.parent and b in self.parent:
            self.parent[self.find(a)] = self.find(b)


def analyze(func: ir.Operation, strides: list[tuple[int, ...]]) -> LoopClasses:
    """Finds the classes of a function; ``strides`` are those of its arguments. Raises ``Unsupported``."""
    try:
        return _analyze(func, strides, share_arguments=True)
    except Unsupported:
        # `x + x.T` reads one argument by two orders of loops: read it twice, by independent loops.
        return _analyze(func, strides, share_arguments=False)


def _analyze(func: ir.Operation, strides, share_arguments: bool) -> LoopClasses:
    block = func.regions[0].blocks[0]
    sets = _Sets()
    views = {a: ArgView(i, shape_of(a), strides[i]) for i, a in enumerate(block.arguments)}
    for arg in block.arguments:
        _add_value(sets, arg)
    generics = []
    for op in (o.operation for o in block.operations):
        if op.name == "linalg.generic":
            generics.append(op)
            _link_generic(sets, op, views, share_arguments)
        elif op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
            _link_reshape(sets, op, views)
        elif op.name != "func.return":
            for result in op.results:
                if isinstance(result.type, ir.RankedTensorType):
                    _add_value(sets, result)
    outputs = [o.operation for o in block.operations][-1].operands
    nests = [[(op, i) for i in range(len(loop_extents(op)))] for op in generics]
    nests += [[(v, d) for d in range(len(shape_of(v)))] for v in outputs]
    nests.sort(key=lambda nest: math.prod(sets.size.get(key, 1) for key in nest), reverse=True)
    _align(sets, nests)
    return _number(sets, [_wide(sets, nest) for nest in nests], generics, views)


def _wide(sets: _Sets, nest: list) -> list:
    """The loops of a nest that run more than once."""
    return [key for key in nest if key in sets.parent]


def _add_value(sets: _Sets, value: ir.Value) -> None:
    for dim, size in enumerate(shape_of(value)):
        if size == 0:
            raise Unsupported("a tensor without elements")
        sets.add((value, dim), size)


def _link_generic(sets: _Sets, op: ir.Operation, views, share_arguments: bool) -> None:
    for result in op.results:
        _add_value(sets, result)
    for loop, size in enumerate(loop_extents(op)):
        sets.add((op, loop), size)
    inputs = len(op.operands) - len(op.results)
    for index, operand in enumerate(op.operands):
        values = [op.results[index - inputs]] if index >= inputs else []
        if share_arguments or operand not in views:
            values.append(operand)
        for value in values:
            for dim, loop in enumerate(operand_loops(op, index)):
                if loop is not None:
                    sets.union((value, dim), (op, loop))


def _link_reshape(sets: _Sets, op: ir.Operation, views: dict[ir.Value, ArgView]) -> None:
    source, result = op.operands[0], op.results[0]
    _add_value(sets, result)
    expands = op.name == "tensor.expand_shape"
    if source in views:
        views[result] = _reshaped(views[source], shape_of(result), reassociation(op), expands)
    for small_dim, group in enumerate(reassociation(op)):
        large = result if expands else source
        small = source if expands else result
        wide = [d for d in group if shape_of(large)[d] != 1]
        if len(wide) == 1:
            sets.union((large, wide[0]), (small, small_dim))
        elif wide and source not in views:
            raise Unsupported(f"a reshape of an intermediate: {shape_of(source)} to {shape_of(result)}")


def _reshaped(view: ArgView, shape: tuple[int, ...], groups: list[list[int]], expands: bool) -> ArgView:
    if expands:
        stride = [0] * len(shape)
        for dim, group in enumerate(groups):
            step = view.stride[dim]
            for d in reversed(group):
                stride[d] = step
                step *= shape[d]
        return ArgView(view.arg, shape, tuple(stride))
    stride = []
    for group in groups:
        wide = [d for d in group if view.shape[d] != 1]
        for outer, inner in zip(wide, wide[1:]):
            if view.stride[outer] != view.stride[inner] * view.shape[inner]:
                raise Unsupported("a reshape of an argument whose strides do not merge")
        stride.append(view.stride[wide[-1]] if wide else 0)
    return ArgView(view.arg, shape, tuple(stride))


def _align(sets: _Sets, nests: list[list]) -> None:
    """Lets nests that share no value run in the largest one's loops, where that broadcasts to it."""
    for nest in nests[1:]:
        roots = {sets.find(key) for key in _wide(sets, nests[0])}
        if not any(sets.find(key) in roots for key in _wide(sets, nest)):
            _unite(sets, nests[0], nest) or _unite(sets, _wide(sets, nests[0]), _wide(sets, nest))


def _unite(sets: _Sets, main: list, nest: list) -> bool:
    """Unites the loops of ``nest`` with those of ``main``, from the right; False where the extents do not match."""
    pairs = [(a, b) for a, b in zip(reversed(main), reversed(nest)) if b in sets.parent]
    if len(pairs) < len(_wide(sets, nest)) or any(sets.size.get(a) != sets.size[b] for a, b in pairs):
        return False
    for a, b in pairs:
        sets.union(b, a)
    return True


def _number(sets: _Sets, nests: list[list], generics: list[ir.Operation], views) -> LoopClasses:
    numbers: dict = {}
    for nest in nests:
        roots = [sets.find(key) for key in nest]
        if len(set(roots)) != len(roots):
            raise Unsupported("one value read by two orders of loops")
        for root in roots:
            numbers.setdefault(root, len(numbers))
    sizes = {number: sets.size[root] for root, number in numbers.items()}
    # Independent nests would each be repeated for every step of the other.
    if nests and len(numbers) > len(nests[0]):
        raise Unsupported("loop nests that do not share their loops")
    reduced = set()
    for op in generics:
        of_op = [
            numbers[sets.find((op, loop))]
            for loop, reduction in enumerate(iterator_is_reduction(op))
            if reduction and (op, loop) in sets.parent
        ]
        if of_op and reduced and set(of_op) != reduced:
            raise Unsupported("reductions over different dimensions")
        reduced |= set(of_op)
    class_of = {key: numbers[root] for key in sets.parent if (root := sets.find(key)) in numbers}
    order = sorted(sizes)
    return LoopClasses(sizes, order, [c for c in order if c in reduced], views, class_of)
