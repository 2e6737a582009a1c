"""The axes of a kernel: loop classes merged where every access allows it, and the block sizes over them."""

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Access:
    """One place where the kernel reads or writes a tensor: (class, stride in elements) of each class that moves it."""

    strides: tuple[tuple[int, int], ...]

    @staticmethod
    def make(dims: tuple[int | None, ...], stride: tuple[int, ...]) -> "Access":
        """``dims``: the class of each dimension (None: extent 1). Dimensions of one class add up, a diagonal."""
        total: dict[int, int] = {}
        for number, step in zip(dims, stride):
            if number is not None and step != 0:
                total[number] = total.get(number, 0) + step
        return Access(tuple(sorted(total.items())))

    def of(self, number: int) -> int:
        return dict(self.strides).get(number, 0)

    def along(self, axis: "Axis") -> int:
        """The stride along an axis: that of its innermost class."""
        return self.of(axis.classes[-1])

    def touches(self, axes: list["Axis"]) -> bool:
        return any(self.along(axis) for axis in axes)


@dataclass
class Axis:
    """Neighbouring loop classes, outermost first, that one index runs over."""

    classes: list[int]
    size: int
    name: str = ""
    used: bool = field(default=False)

    def use(self) -> str:
        self.used = True
        return self.name


@dataclass(frozen=True)
class Blocks:
    """Extents and block sizes; ``rblock`` is None in kernels without reductions."""

    xnumel: int
    rnumel: int
    xblock: int
    rblock: int | None
    num_warps: int

    @property
    def grid(self) -> tuple[int, ...]:
        return (-(-self.xnumel // self.xblock),)


def merge_axes(
    prefix: str, classes: list[int], sizes: dict[int, int], accesses: list[Access], fixed: set[int]
) -> list[Axis]:
    """The axes over ``classes``, innermost first.

    Two neighbours become one axis where each access steps over the outer one as if it went on with the inner one: fewer
    divisions in the kernel. Classes in ``fixed`` stay alone.
    """
    axes: list[Axis] = []
    for number in reversed(classes):
        if axes and not fixed.intersection((number, axes[-1].classes[0])):
            inner = axes[-1]
            if all(access.of(number) == access.along(inner) * inner.size for access in accesses):
                inner.classes.insert(0, number)
                inner.size *= sizes[number]
                continue
        axes.append(Axis([number], sizes[number]))
    for i, axis in enumerate(axes):
        axis.name = f"{prefix}index" if len(axes) == 1 else f"{prefix}{i}"
    return axes


def axis_definitions(prefix: str, axes: list[Axis]) -> list[str]:
    """The lines that split the flat index into the axes that are used."""
    lines, below = [], 1
    for i, axis in enumerate(axes):
        if axis.used and len(axes) > 1:
            text = f"{prefix}index" if below == 1 else f"{prefix}index // {below}"
            lines.append(f"{axis.name} = {text}" + (f" % {axis.size}" if i < len(axes) - 1 else ""))
        below *= axis.size
    return lines


# Elements of one block. An H200 has 132 multiprocessors; two programs for each keep them busy.
_POINTWISE = 1024
_ROWS = 2048
_PROGRAMS = 264
# Triton's interpreter pays for each program and each op in Python, so blocks are as large as it may make them.
_INTERPRETED = 2**17


def choose_blocks(xs: list[Axis], rs: list[Axis], target: str) -> Blocks:
    """Block sizes for ``target`` "cuda" or "cpu"."""
    xnumel, rnumel = math.prod(a.size for a in xs), math.prod(a.size for a in rs)
    rblock = _power_of_two(rnumel) if rs else None
    if target == "cpu":
        xblock = min(_power_of_two(xnumel), max(1, _INTERPRETED // (rblock or 1)))
        return Blocks(xnumel, rnumel, xblock, rblock, 4)
    if rblock is None:
        xblock, least, num_warps = _POINTWISE, 256, 4
    else:
        xblock, least = max(1, _ROWS // rblock), 1
        num_warps = 4 if rblock <= 2048 else 8 if rblock <= 8192 else 16
    while xblock > least and -(-xnumel // xblock) < _PROGRAMS:
        xblock //= 2
    return Blocks(xnumel, rnumel, min(xblock, _power_of_two(xnumel)), rblock, num_warps)


def _power_of_two(number: int) -> int:
    """The next power of two, at least ``number``."""
    return 1 << max(0, number - 1).bit_length()
