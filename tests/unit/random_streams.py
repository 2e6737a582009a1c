"""Random programs in value form, drawn by hypothesis, with what their author knows about the stream of each op."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

STREAMS = (0, 1, 2, 3)
T = "!torch.vtensor"
LIST = "!torch.list<vtensor>"


@dataclass
class Program:
    """``text`` in MLIR. Each computing op has an attribute ``n``, its place in the program.

    ``streams`` gives the stream of those ops that forks and joins decide; ``legal`` is False where a use contradicts them.
    """

    text: str = ""
    streams: dict[int, int] = field(default_factory=dict)
    legal: bool = True


class _Author:
    """Writes one program, keeping for each value the stream it is known to be on, or None."""

    def __init__(self, draw, careful: bool):
        self.draw = draw
        self.careful = careful
        self.program = Program()
        self.known = {"%x": None, "%y": None}
        self.lines = []
        self.names = 0
        self.computed = 0

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def pick(self, count: int) -> tuple[list[str], int | None]:
        """Up to ``count`` values that may stand together, and their stream."""
        picked, stream = [], None
        for _ in range(count):
            fitting = [v for v, s in self.known.items() if not self.careful or stream is None or s in (None, stream)]
            picked.append(self.draw(st.sampled_from(fitting)))
            here = self.known[picked[-1]]
            self.program.legal &= stream is None or here in (None, stream)
            stream = here if stream is None else stream
        return picked, stream

    def compute(self, op: str, stream: int | None, results: int = 1) -> list[str]:
        """Writes ``op``, in which ``@`` stands for its attributes, on ``stream``."""
        names = [self.name() for _ in range(results)]
        if stream is not None:
            self.program.streams[self.computed] = stream
        self.lines.append(f"{', '.join(names)} = {op.replace('@', f'{{n = {self.computed} : i64}}')}")
        self.computed += 1
        self.known.update(dict.fromkeys(names, stream))
        return names

    def elementwise(self):
        values, stream = self.pick(self.draw(st.integers(1, 2)))
        if len(values) == 1:
            self.compute(f"torch.aten.relu {values[0]} @ : {T} -> {T}", stream)
        else:
            self.compute(f"torch.aten.mul.Tensor {', '.join(values)} @ : {T}, {T} -> {T}", stream)

    def from_nothing(self):
        types = f"!torch.list<int>, !torch.int{', !torch.none' * 4}"
        self.compute(f"torch.aten.full %size, %one, %none, %none, %none, %none @ : {types} -> {T}", None)

    def through_list(self):
        values, stream = self.pick(self.draw(st.integers(1, 3)))
        listed = self.name()
        types = ", ".join([T] * len(values))
        self.lines.append(f"{listed} = torch.prim.ListConstruct {', '.join(values)} : ({types}) -> {LIST}")
        for _ in range(self.draw(st.integers(1, 2))):
            self.compute(f"torch.aten.cat {listed}, %zero @ : {LIST}, !torch.int -> {T}", stream)

    def split(self):
        (value,), stream = self.pick(1)
        types = f"{T}, !torch.int, !torch.int -> {LIST}"
        (parts,) = self.compute(f"torch.aten.split.Tensor {value}, %one, %zero @ : {types}", stream)
        del self.known[parts]
        names = [self.name(), self.name()]
        self.lines.append(f"{', '.join(names)} = torch.prim.ListUnpack {parts} : {LIST} -> {T}, {T}")
        self.known.update(dict.fromkeys(names, stream))

    def cross(self):
        values, stream = self.pick(self.draw(st.integers(1, 2)))
        source = self.draw(st.sampled_from(STREAMS)) if stream is None or not self.careful else stream
        target = self.draw(st.sampled_from([s for s in STREAMS if s != source]))
        self.program.legal &= all(self.known[v] in (None, source) for v in values)
        self.boundary(values, source, target)

    def boundary(self, values: list[str], source: int, target: int) -> list[str]:
        names = [self.name() for _ in values]
        types = ", ".join([T] * len(values))
        op = self.draw(st.sampled_from(["fork_stream", "join_stream"]))
        self.lines.append(
            f'{", ".join(names)} = "anabranch.{op}"({", ".join(values)}) '
            f"{{source = {source} : i64, target = {target} : i64}} : ({types}) -> ({types})"
        )
        self.known.update(dict.fromkeys(names, target))
        return names

    def returned(self) -> list[str]:
        values = [self.draw(st.sampled_from(list(self.known))) for _ in range(self.draw(st.integers(1, 3)))]
        for i, value in enumerate(values):
            stream = self.known[value]
            if stream not in (None, 0):
                if self.careful:
                    (values[i],) = self.boundary([value], stream, 0)
                else:
                    self.program.legal = False
        return values


@st.composite
def programs(draw, careful: bool = True) -> Program:
    """A program of up to 14 steps on four streams; with ``careful``, a legal one."""
    author = _Author(draw, careful)
    # Crossings are likely, so that streams mix.
    kinds = [author.elementwise, author.elementwise, author.from_nothing, author.through_list, author.split]
    kinds += [author.cross] * 4
    for _ in range(draw(st.integers(1, 14))):
        draw(st.sampled_from(kinds))()
    results = author.returned()
    types = ", ".join([T] * len(results))
    body = "\n    ".join(author.lines)
    author.program.text = f"""
  func.func @main(%x: {T}, %y: {T}) -> ({types}) {{
    %none = torch.constant.none
    %zero = torch.constant.int 0
    %one = torch.constant.int 1
    %size = torch.prim.ListConstruct %one : (!torch.int) -> !torch.list<int>
    {body}
    return {", ".join(results)} : {types}
  }}
"""
    return author.program
