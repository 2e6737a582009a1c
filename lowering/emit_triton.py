"""Emits one Triton kernel from one kernel function in linalg on tensors.

The whole function becomes one kernel whose intermediates live in registers. Its loops are grouped into classes
(``loop_classes.py``). Parallel classes are flattened into an index X, split over programs in blocks of ``XBLOCK``; the
classes that some op reduces are flattened into an index R that one program holds whole (``RBLOCK``). A value is then a
block [XBLOCK, RBLOCK], [XBLOCK, 1] or [1, RBLOCK], and [XBLOCK] in kernels without reductions. The split into X and R,
and rows held whole ("persistent reductions"), are Inductor's.
"""

import re
from pathlib import Path

from torch_mlir import ir

from anabranch.dialect.layout import Layout
from anabranch.lowering import triton_expr
from anabranch.lowering.kernel_axes import Access, choose_blocks, merge_axes
from anabranch.lowering.kernel_ops import MAX_ROW
from anabranch.lowering.loop_classes import LoopClasses, Unsupported, analyze, iterator_is_reduction, shape_of
from anabranch.lowering.memref import ELEMENT_TYPES
from anabranch.lowering.triton_reduce import Reduction, over_row, reduction
from anabranch.lowering.triton_text import Block, Kernel, KernelText

__all__ = ["Kernel", "Unsupported", "emit_kernel"]

_FILE_AND_LINE = re.compile(r'"([^"]+)":(\d+)')
_DTYPES = {text: dtype for dtype, text in ELEMENT_TYPES.items()}


def emit_kernel(func: ir.OpView, target: str) -> Kernel:
    """The Triton kernel of ``func``, for ``target`` "cuda" or "cpu" (Triton's interpreter: few and large programs).

    Raises ``Unsupported`` with the reason where ``func`` cannot become one kernel.
    """
    func = func.operation
    ops = _ops(func.regions[0].blocks[0])
    inputs = _layouts(func, "arg_attrs", func.regions[0].blocks[0].arguments)
    outputs = _layouts(func, "res_attrs", ops[-1].operands)
    if not outputs:
        raise Unsupported("a kernel without results")
    classes = analyze(func, [layout.stride for layout in inputs])
    return _Emitter(ops, classes, inputs, outputs, target).emit(ir.StringAttr(func.attributes["sym_name"]).value)


def _ops(block: ir.Block) -> list[ir.Operation]:
    return [op.operation for op in block.operations]


def _layouts(func: ir.Operation, attribute: str, values) -> list[Layout]:
    """The layout of each argument or result: its ``anabranch.layout``, else contiguous."""
    attributes = func.attributes[attribute] if attribute in func.attributes else [{}] * len(values)
    layouts = []
    for value, named in zip(values, attributes):
        if "anabranch.layout" in named:
            layouts.append(Layout.parse(ir.StringAttr(named["anabranch.layout"]).value))
            continue
        shape, stride, step = shape_of(value), [], 1
        for size in reversed(shape):
            stride.insert(0, step)
            step *= size
        layouts.append(Layout(shape, tuple(stride), _DTYPES[str(value.type.element_type)], "cpu"))
    return layouts


class _Emitter:
    """Walks the ops of one function; ``blocks`` maps each value that is no argument to its block in registers."""

    def __init__(
        self, ops: list[ir.Operation], classes: LoopClasses, inputs: list[Layout], outputs: list[Layout], target: str
    ):
        self.ops = ops
        self.returned = list(ops[-1].operands)
        self.classes = classes
        self.outputs = outputs
        self.target = target
        self.blocks: dict[ir.Value, Block] = {}
        # The axes depend on every access, so these are collected before any text is written.
        accesses, indexed = self._accesses(), self._indexed()
        parallel = [c for c in classes.order if c not in classes.reduced]
        xs = merge_axes("x", parallel, classes.sizes, accesses, indexed)
        rs = merge_axes("r", classes.reduced, classes.sizes, accesses, indexed)
        sizes = choose_blocks(xs, rs, target)
        if sizes.rnumel > MAX_ROW:
            raise Unsupported(f"a row of {sizes.rnumel} elements, more than {MAX_ROW}")
        self.text = KernelText(inputs, outputs, xs, rs, sizes)

    def emit(self, name: str) -> Kernel:
        for op in self.ops:
            self._op(op)
        for i, value in enumerate(self.returned):
            block = self._value(value, self.classes.of_value(value))
            self.text.store(i, self._output_access(i), block, value.type.element_type)
        return self.text.kernel(name)

    def _accesses(self) -> list[Access]:
        accesses = [self._output_access(i) for i in range(len(self.outputs))]
        for op in self.ops:
            for index, operand in enumerate(op.operands):
                if operand in self.classes.views and op.name == "linalg.generic":
                    accesses.append(self._view_access(operand, self.classes.of_operand(op, index)))
                elif operand in self.classes.views and op.name == "func.return":
                    accesses.append(self._view_access(operand, self.classes.of_value(operand)))
        return accesses

    def _view_access(self, value: ir.Value, dims: tuple[int | None, ...]) -> Access:
        return Access.make(dims, self.classes.views[value].stride)

    def _output_access(self, index: int) -> Access:
        return Access.make(self.classes.of_value(self.returned[index]), self.outputs[index].stride)

    def _indexed(self) -> set[int]:
        """The classes whose index is itself a value, so that they stay axes of their own."""
        indexed = set()
        for op in self.ops:
            for inner in _ops(op.regions[0].blocks[0]) if op.name == "linalg.generic" else ():
                if inner.name == "linalg.index":
                    indexed.add(self.classes.of_loop(op, ir.IntegerAttr(inner.attributes["dim"]).value))
        return indexed

    def _op(self, op: ir.Operation) -> None:
        if op.name == "linalg.generic":
            self._generic(op)
        elif op.name == "arith.constant":
            self.blocks[op.results[0]] = _constant(op)
        elif op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
            if op.operands[0] in self.blocks:
                self.blocks[op.results[0]] = self.blocks[op.operands[0]]
        elif op.name not in ("tensor.empty", "func.return"):
            raise Unsupported(f"op {op.name}")

    def _generic(self, op: ir.Operation) -> None:
        block = op.regions[0].blocks[0]
        body = _ops(block)
        yielded = list(body[-1].operands)
        reduces = any(iterator_is_reduction(op))
        title = _title(op, body, reduces)
        self.text.lines.append(title)
        for index, arg in enumerate(block.arguments):
            if list(arg.uses):
                self.blocks[arg] = self._value(op.operands[index], self.classes.of_operand(op, index))
        combiners = [v.owner for v in yielded] if reduces else []
        for inner in body[:-1]:
            if inner not in combiners:
                self._scalar(op, inner)
        outs = list(block.arguments)[len(op.operands) - len(op.results) :]
        for result, value, out in zip(op.results, yielded, outs):
            self.blocks[result] = self._reduce(op, value, out) if reduces else self.blocks[value]
        if self.text.lines[-1] == title:
            self.text.lines.pop()  # constants and copies need no text

    def _value(self, value: ir.Value, dims: tuple[int | None, ...]) -> Block:
        """A tensor's element; that of an argument is read at the classes ``dims``."""
        if value in self.classes.views:
            return self.text.load(self.classes.views[value].arg, self._view_access(value, dims))
        if value not in self.blocks:
            raise Unsupported("a read of a tensor without values")
        return self.blocks[value]

    def _scalar(self, generic: ir.Operation, op: ir.Operation) -> None:
        if op.name == "arith.constant":
            self.blocks[op.results[0]] = _constant(op)
        elif op.name == "linalg.index":
            loop = ir.IntegerAttr(op.attributes["dim"]).value
            self.blocks[op.results[0]] = self.text.index(self.classes.of_loop(generic, loop))
        elif not op.results:
            raise Unsupported(f"op {op.name}")
        else:
            self.blocks[op.results[0]] = self._compute(op, [self.blocks[v] for v in op.operands])

    def _compute(self, op: ir.Operation, args: list[Block]) -> Block:
        if len(args) == 1 and args[0].value is not None:
            folded = triton_expr.fold_cast(op, args[0].value)
            if folded is not None:
                return Block.constant(folded)
        if triton_expr.keeps_register(op) or triton_expr.compares_narrow(op):
            return args[0]
        if op.name == "arith.cmpf":
            args = _narrowed(op, args)
        lines = triton_expr.template(op, args[1].value if len(args) > 1 else None)
        # Triton gives a bare constant a type of its own choice, unless a block stands beside it.
        first = 1 if op.name == "arith.select" else 0
        bare = [i for i in range(first, len(args)) if args[i].value is not None]
        if len(bare) == len(args) - first or "{U}" in lines[0]:
            for i in bare:
                args[i] = self.text.full(args[i], op.operands[i].type)
        names = {
            "T": triton_expr.register_type(op.results[0].type),
            "U": triton_expr.unsigned_type(str(op.operands[0].type)),
        }
        x, r, stem = any(a.x for a in args), any(a.r for a in args), triton_expr.stem(op)
        for i, line in enumerate(lines):
            name = stem if i == len(lines) - 1 else f"{stem}_t"
            made = self.text.assign(name, line.format(*(a.text for a in args), **names), x, r)
            names[f"t{i}"] = made.text
        return made

    def _reduce(self, op: ir.Operation, value: ir.Value, out: ir.Value) -> Block:
        combiner = value.owner
        kind = None if isinstance(combiner, ir.Block) else reduction(combiner.name, str(value.type))
        if kind is None:
            name = "no op" if isinstance(combiner, ir.Block) else combiner.name
            raise Unsupported(f"a reduction by {name}")
        operands = list(combiner.operands)
        if operands.count(out) != 1 or len(list(out.uses)) != 1:
            raise Unsupported(f"a reduction by {combiner.name} and more")
        made = self.text.full(self.blocks[operands[0] if operands[1] == out else operands[1]], value.type)
        loops = [i for i, is_reduction in enumerate(iterator_is_reduction(op)) if is_reduction]
        if any(self.classes.of_loop(op, i) is not None for i in loops):
            made = self._reduce_row(made, kind, value.type)
        start = self.blocks[out]
        if start.value == kind.neutral:
            return made
        text = kind.combine.format(made.text, start.text)
        return self.text.assign(kind.stem, text, made.x or start.x, made.r or start.r)

    def _reduce_row(self, block: Block, kind: Reduction, type_: ir.Type) -> Block:
        row = self.text.mask_row(block, kind.neutral).text
        if str(type_) == "i1":
            text = over_row(kind.function, f"{row}.to(tl.int32)", self.target) + " != 0"
        else:
            text = over_row(kind.function, row, self.target)
        if str(type_) in ("i8", "i16"):
            text += f".to({triton_expr.register_type(type_)})"  # Triton reduces these in 32 bits
        made = self.text.assign(kind.stem, text, True, False)
        if kind.keeps_nan:
            nans = over_row("max", f"({row} != {row}).to(tl.int32)", self.target)
            made = self.text.assign(kind.stem, f'tl.where({nans} != 0, float("nan"), {made.text})', True, False)
        return made


def _constant(op: ir.Operation) -> Block:
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            raise Unsupported("a constant tensor whose elements differ")
        attribute = attribute.get_splat_value()
    return Block.constant(bool(attribute.value) if str(attribute.type) == "i1" else attribute.value)


def _narrowed(op: ir.Operation, args: list[Block]) -> list[Block]:
    """Rounds the constant that a float is compared with to the type the float had before it was widened."""
    for value in op.operands:
        if not isinstance(value.owner, ir.Block) and triton_expr.compares_narrow(value.owner):
            type_ = str(value.owner.operands[0].type)
            return [a if a.value is None else Block.constant(triton_expr.rounded(a.value, type_)) for a in args]
    return args


def _title(op: ir.Operation, body: list[ir.Operation], reduces: bool) -> str:
    """The comment line over what ``op`` becomes: the user's line, where it is known, and what is computed."""
    names = [triton_expr.stem(inner) for inner in body[:-1] if inner.name != "arith.constant"]
    kind = "reduce rows to" if reduces else "pointwise"
    place = _FILE_AND_LINE.search(str(op.location))
    line = f"{Path(place[1]).name}:{place[2]}: " if place else ""
    return f"# {line}{kind} {list(shape_of(op.results[0]))}: {', '.join(names)}"
