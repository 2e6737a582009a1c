"""What the last compiled program does: its streams, kernels and waits, and what was proved about them."""

from dataclasses import dataclass, fields
from typing import Any

from anabranch.dialect.errors import AnabranchError


class NothingCompiled(AnabranchError):
    """A report is asked for before anything was compiled."""

    message = (
        "there is no report yet: nothing was compiled with backend 'anabranch' in this process; torch.compile compiles when "
        "the compiled function is called first"
    )


@dataclass(frozen=True)
class Report:
    """The facts of one compiled graph.

    ``launches`` are (stream, name, ops) in host order: a kernel's or PyTorch op's name and the ATen ops it runs.
    ``waits`` are (waiting stream, recorded stream). ``waits_before`` counts a wait for every use of what another stream
    made, ``waits_after`` those that order something new and are issued. ``access_pairs`` is the number of conflicting
    accesses to the same memory that were proved ordered.
    """

    streams: dict[int, str]
    regions: int
    kernels: int
    kernel_launches: int
    extern_calls: int
    views: int
    waits_before: int
    waits_after: int
    access_pairs: int
    arena_bytes: dict[str, int]
    launches: list[tuple[int, str, tuple[str, ...]]]
    waits: list[tuple[int, int]]
    compile_seconds: float
    # "hit", "miss" or "off".
    cache: str
    # The emitted Python file that runs.
    plan: str
    # The folder with each stage's text, if one was asked for; a plan from the cache has no other stage.
    dump_dir: str | None = None

    @classmethod
    def of(cls, facts: dict[str, Any], **more: Any) -> "Report":
        """The report of a plan's ``facts``."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in facts.items() if name in known}, **more)

    def __str__(self) -> str:
        streams = ", ".join(f"{i} ({kind})" for i, kind in sorted(self.streams.items()))
        arena = ", ".join(f"{nbytes:,} bytes on {device}" for device, nbytes in self.arena_bytes.items()) or "none"
        lines = [
            f"streams         {streams}",
            f"regions         {self.regions}",
            f"Triton kernels  {self.kernels}, launched {self.kernel_launches} times",
            f"extern calls    {self.extern_calls} (and {self.views} views, which run nothing)",
            f"waits           {self.waits_after} of {self.waits_before} left after elision",
            f"race proof      {self.access_pairs:,} pairs of conflicting accesses, all ordered",
            f"arena           {arena}",
            f"compiled in     {self.compile_seconds:.2f} s (cache: {self.cache})",
            f"plan            {self.plan}",
        ]
        if self.dump_dir is not None:
            lines.append(f"stages          {self.dump_dir}")
        return "\n".join(lines)


_LAST: list[Report] = []


def remember(report: Report) -> None:
    """Makes ``report`` the last one."""
    _LAST[:] = [report]


def last_report() -> Report:
    """The report of the graph that was compiled, or loaded from the cache, last in this process.

    Raises ``NothingCompiled`` before that. A program that breaks into several graphs is reported graph by graph: this is
    the last of them.
    """
    if not _LAST:
        raise NothingCompiled()
    return _LAST[0]
