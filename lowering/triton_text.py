"""The text of one Triton kernel while it is written: blocks in registers, loads, stores and the index arithmetic."""

from dataclasses import dataclass

from torch_mlir import ir

from anabranch.dialect.layout import Layout
from anabranch.lowering import triton_expr
from anabranch.lowering.kernel_axes import Access, Axis, Blocks, axis_definitions


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
class Block:
    """A value in registers: its name, and whether it varies along X and along R; a constant has its ``value``."""

    text: str
    x: bool = False
    r: bool = False
    value: bool | int | float | None = None

    @staticmethod
    def constant(value: bool | int | float) -> "Block":
        return Block(triton_expr.literal(value), value=value)


class KernelText:
    """Collects the lines of a kernel over axes ``xs`` and ``rs``, innermost first; 1-D where there are no ``rs``."""

    def __init__(self, inputs: list[Layout], outputs: list[Layout], xs: list[Axis], rs: list[Axis], blocks: Blocks):
        self.inputs = inputs
        self.outputs = outputs
        self.xs = xs
        self.rs = rs
        self.blocks = blocks
        self.lines: list[str] = []
        self._loads: dict[tuple[int, Access], Block] = {}
        self._counts: dict[str, int] = {}

    def assign(self, stem: str, text: str, x: bool, r: bool) -> Block:
        """Writes a line that gives ``text`` a new name."""
        number = self._counts.get(stem, 0)
        self._counts[stem] = number + 1
        self.lines.append(f"{stem}_{number} = {text}")
        return Block(f"{stem}_{number}", x, r)

    def full(self, block: Block, type_: ir.Type) -> Block:
        """``block`` itself, or a block of one element where it is a constant, which alone has no type."""
        if block.value is None:
            return block
        shape = "[1, 1]" if self.rs else "[1]"
        return self.assign("const", f"tl.full({shape}, {block.text}, {triton_expr.register_type(type_)})", False, False)

    def index(self, number: int | None) -> Block:
        """The index of a loop class, which is an axis of its own."""
        if number is None:
            return Block.constant(0)
        axis = next(a for a in (*self.xs, *self.rs) if number in a.classes)
        return Block(axis.use(), x=axis in self.xs, r=axis in self.rs)

    def load(self, arg: int, access: Access) -> Block:
        """Argument ``arg`` read at ``access``; read once, however often it is used."""
        if (arg, access) not in self._loads:
            x, r = access.touches(self.xs), access.touches(self.rs)
            # A block of one element and not a scalar, which Triton's interpreter does not combine with blocks of bool.
            one = "" if x or r else f"tl.full({'[1, 1]' if self.rs else '[1]'}, 0, tl.int32)"
            place = " + ".join(filter(None, (f"in_ptr{arg}", self._offset(access), one)))
            masks = self._masks(x, r)
            text = f"tl.load({place}, {' & '.join(masks)}, other=0)" if masks else f"tl.load({place})"
            text += triton_expr.AFTER_LOAD.get(self.inputs[arg].dtype, "")
            self._loads[arg, access] = self.assign(f"in{arg}", text, x, r)
        return self._loads[arg, access]

    def store(self, result: int, access: Access, block: Block, type_: ir.Type) -> None:
        """Writes ``block`` to result ``result``; what varies along fewer axes than the kernel is written once."""
        x, r = access.touches(self.xs), access.touches(self.rs)
        offset, masks = self._offset(access), self._masks(x, r)
        if x or r:
            idle = [a for axes, moves in ((self.xs, x), (self.rs, r)) if moves for a in axes if not access.along(a)]
            masks += [f"({axis.use()} == 0)" for axis in idle]
        if not x:
            # One lane of X writes it; adding its index, which is 0, gives the pointers the shape of a block.
            offset, masks = " + ".join(filter(None, ("xindex", offset))), ["(xindex == 0)", *masks]
        text = self.full(block, type_).text + triton_expr.BEFORE_STORE.get(self.outputs[result].dtype, "")
        self.lines.append(f"tl.store(out_ptr{result} + {offset}, {text}, {' & '.join(masks)})")

    def mask_row(self, block: Block, neutral: bool | int | float) -> Block:
        """``block`` with all of [XBLOCK, RBLOCK], and ``neutral`` in the lanes past the end of the row."""
        if not (block.x and block.r):
            block = self.assign("row", f"tl.broadcast_to({block.text}, [XBLOCK, RBLOCK])", True, True)
        if self._masks(False, True):
            text = f"tl.where(rmask, {block.text}, {triton_expr.literal(neutral)})"
            block = self.assign("row", text, True, True)
        return block

    def kernel(self, name: str) -> Kernel:
        """The finished kernel."""
        constants = {"XBLOCK": self.blocks.xblock}
        column = "[:, None]" if self.rs else ""
        head = [f"xindex = {self._program()} * XBLOCK + tl.arange(0, XBLOCK){column}"]
        head.append(f"xmask = xindex < {self.blocks.xnumel}")
        head += axis_definitions("x", self.xs)
        if self.rs:
            constants["RBLOCK"] = self.blocks.rblock
            head.append("rindex = tl.arange(0, RBLOCK)[None, :]")
            if self._masks(False, True):
                head.append(f"rmask = rindex < {self.blocks.rnumel}")
            head += axis_definitions("r", self.rs)
        parameters = [f"in_ptr{i}" for i in range(len(self.inputs))]
        parameters += [f"out_ptr{i}" for i in range(len(self.outputs))]
        parameters += [f"{c}: tl.constexpr" for c in constants]
        body = "".join(f"    {line}\n" for line in head + self.lines)
        source = f"@triton.jit\ndef {name}({', '.join(parameters)}):\n{body}"
        return Kernel(name, source, self.blocks.grid, {**constants, "num_warps": self.blocks.num_warps})

    def _program(self) -> str:
        """The program's number, in 64 bits where an index or an offset in bytes may not fit in 32."""
        bytes_ = max(layout.nbytes for layout in (*self.inputs, *self.outputs))
        wide = max(self.blocks.xnumel * self.blocks.rnumel, bytes_) >= 2**31
        return "tl.program_id(0).to(tl.int64)" if wide else "tl.program_id(0)"

    def _masks(self, x: bool, r: bool) -> list[str]:
        return ["xmask"] * x + ["rmask"] * (r and self.blocks.rnumel != self.blocks.rblock)

    def _offset(self, access: Access) -> str:
        terms = [(access.along(axis), axis) for axis in (*self.rs, *self.xs)]
        return " + ".join(axis.use() if step == 1 else f"{step} * {axis.use()}" for step, axis in terms if step)
