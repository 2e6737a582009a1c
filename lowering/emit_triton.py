"""Emits one Triton kernel from one kernel function in linalg on tensors.

The whole function becomes one kernel whose intermediates live in registers. Its loops are grouped into classes
(``loop_classes.py``). Parallel classes are flattened into an index X, split over programs in blocks of ``XBLOCK``; the
classes that some op reduces are flattened into an index R that one program holds whole (``RBLOCK``). A value is then a block
[XBLOCK, RBLOCK], [XBLOCK, 1] or [1, RBLOCK], and [XBLOCK] in kernels without reductions. The split into X and R, and rows held
whole ("persistent reductions"), are Inductor's.
"""

from dataclasses import dataclass, field

from torch_mlir import ir

from anabranch.lowering import triton_expr
from anabranch.lowering.kernel_axes import Access, axis_definitions, choose_blocks, merge_axes
from anabranch.lowering.layout import ELEMENT_TYPES, Layout
from anabranch.lowering.loop_classes import (
    LoopClasses,
    Unsupported,
    analyze,
    iterator_is_reduction,
    shape_of,
)
from anabranch.lowering.triton_reduce import Reduction, over_row, reduction

__all__ = ["Kernel", "Unsupported", "emit_kernel"]

_MAX_ROW = 16384
_DTYPES = {text: dtype for dtype, text in ELEMENT_TYPES.items()}


@dataclass(frozen=True)
class Kernel:
    """A Triton kernel as text, and how to launch it.

    ``source`` is one ``@triton.jit`` function of pointers (inputs, then outputs) and constexprs; it expects the names
    ``triton`` and ``tl``. ``constants`` are the constexprs and ``num_warps``, to be passed by keyword.
    """

    name: str
    source: str
    grid: tuple[int, ...]
    constants: dict[str, int]


@dataclass(frozen=True)
class _Expr:
    """A scalar of the linalg body as a block in registers; a constant (``value``) has no block."""

    text: str
    x: bool = False
    r: bool = False
    value: bool | int | float | None = None


def emit_kernel(func: ir.OpView, target: str) -> Kernel:
    """The Triton kernel of ``func``, for ``target`` "cuda" or "cpu" (Triton's interpreter: few and large programs).

    Raises ``Unsupported`` with the reason where ``func`` cannot become one kernel.
    """
    operation = func.operation
    block = operation.regions[0].blocks[0]
    returned = [o.operation for o in block.operations][-1].operands
    inputs = _layouts(operation, "arg_attrs", block.arguments)
    outputs = _layouts(operation, "res_attrs", returned)
    if not outputs:
        raise Unsupported("a kernel without results")
    classes = analyze(operation, [layout.stride for layout in inputs])
    return _Emitter(operation, classes, inputs, outputs, target).emit()


def _layouts(func: ir.Operation, attribute: str, values) -> list[Layout]:
    """The layout of each argument or result: its ``anabranch.layout``, else contiguous."""
    attributes = func.attributes[attribute] if attribute in func.attributes else [{}] * len(values)
    layouts = []
    for value, named in zip(values, attributes):
        if "anabranch.layout" in named:
            layouts.append(Layout.parse(ir.StringAttr(named["anabranch.layout"]).value))
            continue
        shape, stride = shape_of(value), []
        for size in reversed(shape):
            stride.insert(0, stride[0] * shape[len(shape) - len(stride)] if stride else 1)
        layouts.append(Layout(shape, tuple(stride), _DTYPES[str(value.type.element_type)], "cpu"))
    return layouts


@dataclass
class _Emitter:
    func: ir.Operation
    classes: LoopClasses
    inputs: list[Layout]
    outputs: list[Layout]
    target: str
    lines: list[str] = field(default_factory=list)
    env: dict[ir.Value, _Expr] = field(default_factory=dict)
    loads: dict = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def emit(self) -> Kernel:
        ops = [o.operation for o in self.func.regions[0].blocks[0].operations]
        self.returned = list(ops[-1].operands)
        parallel = [c for c in self.classes.order if c not in self.classes.reduced]
        accesses = self._accesses(ops)
        fixed = self._indexed(ops)
        sizes = self.classes.sizes
        self.xs = merge_axes("x", parallel, sizes, accesses, fixed)
        self.rs = merge_axes("r", self.classes.reduced, sizes, accesses, fixed)
        self.rows = bool(self.rs)
        self.blocks = choose_blocks(self.xs, self.rs, self.target)
        if self.rows and self.blocks.rnumel > _MAX_ROW:
            raise Unsupported(f"a row of {self.blocks.rnumel} elements, more than {_MAX_ROW}")
        self.wide = self.blocks.xnumel * self.blocks.rnumel >= 2**31 or any(
            layout.nbytes >= 2**31 for layout in (*self.inputs, *self.outputs)
        )
        for op in ops:
            self._op(op)
        self._stores()
        return self._kernel()

    # What the kernel reads and writes, before any text: the axes depend on it.

    def _accesses(self, ops: list[ir.Operation]) -> list[Access]:
        accesses = [self._output_access(i) for i in range(len(self.outputs))]
        for op in ops:
            for index, operand in enumerate(op.operands):
                if operand not in self.classes.views:
                    continue
                if op.name == "linalg.generic":
                    accesses.append(self._view_access(operand, self.classes.of_operand(op, index)))
                elif op.name == "func.return":
                    accesses.append(self._view_access(operand, self.classes.of_value(operand)))
        return accesses

    def _view_access(self, value: ir.Value, dims: tuple[int | None, ...]) -> Access:
        return Access.make(dims, self.classes.views[value].stride)

    def _output_access(self, index: int) -> Access:
        return Access.make(self.classes.of_value(self.returned[index]), self.outputs[index].stride)

    def _indexed(self, ops: list[ir.Operation]) -> set[int]:
        """The classes whose index is itself a value, so that they stay axes of their own."""
        indexed = set()
        for op in ops:
            if op.name == "linalg.generic":
                for inner in op.regions[0].blocks[0].operations:
                    if inner.operation.name == "linalg.index":
                        indexed.add(self.classes.of_loop(op, ir.IntegerAttr(inner.operation.attributes["dim"]).value))
        return indexed

    # Ops

    def _op(self, op: ir.Operation) -> None:
        if op.name == "linalg.generic":
            self._generic(op)
        elif op.name == "arith.constant":
            self.env[op.results[0]] = self._constant(op)
        elif op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
            if op.operands[0] in self.env:
                self.env[op.results[0]] = self.env[op.operands[0]]
        elif op.name not in ("tensor.empty", "func.return"):
            raise Unsupported(f"op {op.name}")

    def _constant(self, op: ir.Operation) -> _Expr:
        attribute = op.attributes["value"]
        if isinstance(attribute, ir.DenseElementsAttr):
            if not attribute.is_splat:
                raise Unsupported("a constant tensor whose elements differ")
            attribute = attribute.get_splat_value()
        value = attribute.value
        if str(attribute.type) == "i1":
            value = bool(value)
        return _Expr(triton_expr.literal(value), value=value)

    def _generic(self, op: ir.Operation) -> None:
        block = op.regions[0].blocks[0]
        body = [o.operation for o in block.operations]
        yielded = list(body[-1].operands)
        reduces = any(iterator_is_reduction(op))
        title = self._title(op, body, reduces)
        self.lines.append(title)
        inputs = len(op.operands) - len(op.results)
        for index, (operand, arg) in enumerate(zip(op.operands, block.arguments)):
            if index >= inputs and operand not in self.env and operand not in self.classes.views:
                continue  # tensor.empty: nothing reads it
            if not list(arg.uses):
                continue
            self.env[arg] = self._read(op, index)
        combiners = [v.owner for v in yielded] if reduces else []
        for inner in body[:-1]:
            if inner not in combiners:
                self._scalar(op, inner)
        for result, value, out in zip(op.results, yielded, list(block.arguments)[inputs:]):
            self.env[result] = self._reduce(op, value, out) if reduces else self.env[value]
        if self.lines[-1] == title:
            self.lines.pop()  # constants and copies need no text

    def _read(self, op: ir.Operation, index: int) -> _Expr:
        operand = op.operands[index]
        if operand in self.classes.views:
            return self._load(operand, self.classes.of_operand(op, index))
        return self.env[operand]

    def _load(self, value: ir.Value, dims: tuple[int | None, ...]) -> _Expr:
        view = self.classes.views[value]
        access = self._view_access(value, dims)
        key = (view.arg, access)
        if key in self.loads:
            return self.loads[key]
        layout = self.inputs[view.arg]
        x, r = access.touches(self.xs), access.touches(self.rs)
        masks = self._masks(x, r)
        offset = self._offset(access)
        text = f"tl.load(in_ptr{view.arg} + {offset}" if offset else f"tl.load(in_ptr{view.arg}"
        text += f", {' & '.join(masks)}, other=0)" if masks else ")"
        text += triton_expr.AFTER_LOAD.get(layout.dtype, "")
        self.loads[key] = self._assign(f"in{view.arg}", text, x, r)
        return self.loads[key]

    def _scalar(self, generic: ir.Operation, op: ir.Operation) -> None:
        if op.name == "arith.constant":
            self.env[op.results[0]] = self._constant(op)
            return
        if op.name == "linalg.index":
            self.env[op.results[0]] = self._index(generic, ir.IntegerAttr(op.attributes["dim"]).value)
            return
        args = [self.env[v] for v in op.operands]
        if len(args) == 1 and args[0].value is not None:
            folded = triton_expr.fold_cast(op, args[0].value)
            if folded is not None:
                self.env[op.results[0]] = _Expr(triton_expr.literal(folded), value=folded)
                return
        if triton_expr.keeps_register(op) or triton_expr.compares_narrow(op):
            self.env[op.results[0]] = args[0]
            return
        if op.name == "arith.cmpf":
            args = self._narrowed(op, args)
        exponent = args[1].value if len(args) > 1 else None
        lines = triton_expr.template(op, exponent)
        # Triton gives a bare constant a type of its own choice, unless a block stands beside it.
        first = 1 if op.name == "arith.select" else 0
        bare = [i for i in range(first, len(args)) if args[i].value is not None]
        if len(bare) == len(args) - first or "{U}" in lines[0]:
            for i in bare:
                args[i] = self._full(args[i], op.operands[i].type)
        texts = [a.text for a in args]
        names = {"T": triton_expr.register_type(op.results[0].type)}
        names["U"] = triton_expr.unsigned_type(str(op.operands[0].type))
        x, r = any(a.x for a in args), any(a.r for a in args)
        stem = triton_expr.stem(op)
        for i, line in enumerate(lines):
            last = i == len(lines) - 1
            made = self._assign(stem if last else f"{stem}_t", line.format(*texts, **names), x, r)
            names[f"t{i}"] = made.text
        self.env[op.results[0]] = made

    def _narrowed(self, op: ir.Operation, args: list[_Expr]) -> list[_Expr]:
        """Rounds the constant that a float is compared with to the type the float had before it was widened."""
        for value in op.operands:
            if not isinstance(value.owner, ir.Block) and triton_expr.compares_narrow(value.owner):
                type_ = str(value.owner.operands[0].type)
                values = [None if a.value is None else triton_expr.rounded(a.value, type_) for a in args]
                return [a if v is None else _Expr(triton_expr.literal(v), value=v) for a, v in zip(args, values)]
        return args

    def _full(self, constant: _Expr, type_: ir.Type) -> _Expr:
        shape = "[1, 1]" if self.rows else "[1]"
        return self._assign("const", f"tl.full({shape}, {constant.text}, {triton_expr.register_type(type_)})", False, False)

    def _index(self, op: ir.Operation, loop: int) -> _Expr:
        number = self.classes.of_loop(op, loop)
        if number is None:
            return _Expr("0", value=0)
        axis = next(a for a in (*self.xs, *self.rs) if number in a.classes)
        return _Expr(axis.use(), x=axis in self.xs, r=axis in self.rs)

    def _reduce(self, op: ir.Operation, value: ir.Value, out: ir.Value) -> _Expr:
        combiner = value.owner
        kind = reduction(combiner.name, str(value.type))
        operands = list(combiner.operands)
        if kind is None or operands.count(out) != 1 or len(list(out.uses)) != 1:
            raise Unsupported(f"a reduction by {combiner.name}")
        made = self._block(self.env[operands[0] if operands[1] == out else operands[1]], value.type)
        loops = [i for i, is_reduction in enumerate(iterator_is_reduction(op)) if is_reduction]
        if any(self.classes.of_loop(op, i) is not None for i in loops):
            made = self._reduce_row(made, kind, value.type)
        start = self.env[out]
        if start.value == kind.neutral:
            return made
        return self._assign(kind.stem, kind.combine.format(made.text, start.text), made.x or start.x, False)

    def _reduce_row(self, row: _Expr, kind: Reduction, type_: ir.Type) -> _Expr:
        if not (row.x and row.r):
            row = self._assign("row", f"tl.broadcast_to({row.text}, [XBLOCK, RBLOCK])", True, True)
        if self._masks(False, True):
            row = self._assign("row", f"tl.where(rmask, {row.text}, {triton_expr.literal(kind.neutral)})", True, True)
        if str(type_) == "i1":
            text = over_row(kind.function, f"{row.text}.to(tl.int32)", self.target) + " != 0"
        else:
            text = over_row(kind.function, row.text, self.target)
        if str(type_) in ("i8", "i16"):
            text += f".to({triton_expr.register_type(type_)})"  # Triton reduces these in 32 bits
        made = self._assign(kind.stem, text, True, False)
        if kind.keeps_nan:
            nans = over_row("max", f"({row.text} != {row.text}).to(tl.int32)", self.target)
            made = self._assign(kind.stem, f'tl.where({nans} != 0, float("nan"), {made.text})', True, False)
        return made

    def _block(self, expr: _Expr, type_: ir.Type) -> _Expr:
        return expr if expr.value is None else self._full(expr, type_)

    # Text

    def _assign(self, stem: str, text: str, x: bool, r: bool) -> _Expr:
        number = self.counts.get(stem, 0)
        self.counts[stem] = number + 1
        self.lines.append(f"{stem}_{number} = {text}")
        return _Expr(f"{stem}_{number}", x, r)

    def _masks(self, x: bool, r: bool) -> list[str]:
        partial = self.blocks.rnumel != self.blocks.rblock
        return ["xmask"] * x + ["rmask"] * (r and partial)

    def _offset(self, access: Access) -> str:
        terms = [(access.along(axis), axis) for axis in (*self.rs, *self.xs)]
        return " + ".join(axis.use() if step == 1 else f"{step} * {axis.use()}" for step, axis in terms if step)

    def _stores(self) -> None:
        for i, (value, layout) in enumerate(zip(self.returned, self.outputs)):
            if value in self.classes.views:
                made = self._load(value, self.classes.of_value(value))
            else:
                made = self.env[value]
            access = self._output_access(i)
            x, r = access.touches(self.xs), access.touches(self.rs)
            offset, masks = self._offset(access), self._masks(x, r)
            if x or r:
                masks += [f"({a.use()} == 0)" for a in self.xs if x and not access.along(a)]
                masks += [f"({a.use()} == 0)" for a in self.rs if r and not access.along(a)]
            if not x:
                # One lane of X writes it.
                offset, masks = " + ".join(filter(None, ("xindex", offset))), ["(xindex == 0)", *masks]
            cast = triton_expr.BEFORE_STORE.get(layout.dtype, "")
            text = self._block(made, value.type.element_type).text + cast
            self.lines.append(f"tl.store(out_ptr{i} + {offset}, {text}, {' & '.join(masks)})")

    def _title(self, op: ir.Operation, body: list[ir.Operation], reduces: bool) -> str:
        names = [triton_expr.stem(inner) for inner in body[:-1] if inner.name != "arith.constant"]
        kind = "reduce rows to" if reduces else "pointwise"
        return f"# {kind} {list(shape_of(op.results[0]))}: {', '.join(names) or 'copy'}"

    def _kernel(self) -> Kernel:
        name = ir.StringAttr(self.func.attributes["sym_name"]).value
        pointers = [f"in_ptr{i}" for i in range(len(self.inputs))] + [f"out_ptr{i}" for i in range(len(self.outputs))]
        constants = {"XBLOCK": self.blocks.xblock}
        program = "tl.program_id(0).to(tl.int64)" if self.wide else "tl.program_id(0)"
        column = "[:, None]" if self.rows else ""
        head = [f"xindex = {program} * XBLOCK + tl.arange(0, XBLOCK){column}", f"xmask = xindex < {self.blocks.xnumel}"]
        head += axis_definitions("x", self.xs)
        if self.rows:
            constants["RBLOCK"] = self.blocks.rblock
            head.append("rindex = tl.arange(0, RBLOCK)[None, :]")
            if self._masks(False, True):
                head.append(f"rmask = rindex < {self.blocks.rnumel}")
            head += axis_definitions("r", self.rs)
        parameters = ", ".join(pointers + [f"{c}: tl.constexpr" for c in constants])
        body = "".join(f"    {line}\n" for line in head + self.lines)
        source = f"@triton.jit\ndef {name}({parameters}):\n{body}"
        return Kernel(name, source, self.blocks.grid, {**constants, "num_warps": self.blocks.num_warps})
