"""That the harness can fail: without any one of its waits, each program is wrong in some simulated order."""

import pytest
import torch

import anabranch
from anabranch.runtime import plan
from anabranch.runtime.simulate import SimulatedRuntime
from tests.programs import test_programs as programs
from tests.programs.harness import SEEDS

PROGRAMS = [name for name in sorted(vars(programs)) if name.endswith(("_ops", "_context"))]


class Forgetful(SimulatedRuntime):
    """A runtime that forgets wait number ``forgotten``; ``matters`` says of each wait whether work stands before its event.

    Nothing stands before the event of a call's entry: inputs are ready before a simulated call.
    """

    def __init__(self, forgotten: int, *args):
        super().__init__(*args)
        self._forgotten = forgotten
        self._after_work: dict[int, bool] = {}
        self.matters: list[bool] = []

    def record(self, stream):
        worked = any(kind == "work" for kind, *_ in self._queues[stream])
        event = super().record(stream)
        self._after_work[event] = worked
        return event

    def wait(self, stream, event):
        if len(self.matters) != self._forgotten:
            super().wait(stream, event)
        self.matters.append(self._after_work[event])


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_wait_of_a_program_is_needed(name, monkeypatch):
    program = getattr(programs, name)
    inputs = (programs.X, programs.W)[: program.__code__.co_argcount]
    torch.compiler.reset()
    runtimes = []

    def is_right(forgotten: int, seed: int) -> bool:
        def rt(streams, _):
            runtimes.append(Forgetful(forgotten, streams, seed))
            return runtimes[-1]

        monkeypatch.setattr(plan, "SimulatedRuntime", rt)
        results, expected = compiled(*inputs), program(*inputs)
        pairs = zip(results, expected) if isinstance(expected, tuple) else [(results, expected)]
        return all(torch.allclose(a, b) for a, b in pairs)

    with torch.no_grad():
        compiled = torch.compile(program, backend="anabranch", fullgraph=True)
        assert all(is_right(-1, seed) for seed in SEEDS)
        matters = runtimes[-1].matters
        assert len(matters) == len(anabranch.last_report().waits)
        for number, needed in enumerate(matters):
            right = [is_right(number, seed) for seed in SEEDS]
            assert not needed or not all(right), f"wait {number} is forgotten and no order shows it"
