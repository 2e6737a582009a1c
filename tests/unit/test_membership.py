"""The stream passes on random programs: what is refused, the normal form, and that regions compute the same values.

The checks share no code with the passes: streams are checked by unification, values by symbolic evaluation.
"""

import pytest
from hypothesis import given, settings
from torch_mlir import ir

from anabranch.dialect.ops import new_context
from anabranch.lowering.passes import PassFailed, run_pipeline
from tests.unit.random_streams import programs

BOUNDARIES = ("anabranch.fork_stream", "anabranch.join_stream")


def parse(text: str) -> ir.Module:
    return ir.Module.parse(text, new_context())


def main_ops(module: ir.Module) -> list[ir.Operation]:
    return [op.operation for op in block_of(module).operations]


def block_of(module: ir.Module) -> ir.Block:
    return module.body.operations[0].operation.regions[0].blocks[0]


def is_tensor(value: ir.Value) -> bool:
    return "tensor" in str(value.type)


def integer(op: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(op.attributes[name]).value


def stream_problems(module: ir.Module) -> list[str]:
    """What in a program contradicts strict normal form; empty if nothing does.

    Each value has a class, each class at most one stream: an op unites its tensors, a boundary says streams.
    """
    parent, stream_of, problems = {}, {}, []

    def find(x):
        while parent.get(x, x) != x:
            x = parent[x]
        return x

    def unite(x, y, at):
        x, y = find(x), find(y)
        if x != y:
            parent[y] = x
            if y in stream_of:
                say(x, stream_of[y], at)

    def say(x, stream, at):
        if stream_of.setdefault(find(x), stream) != stream:
            problems.append(f"{at}: on streams {stream_of[find(x)]} and {stream}")

    for argument in block_of(module).arguments:
        say(argument, 0, "argument")
    crossed = set()
    for op in main_ops(module):
        operands = [x for x in op.operands if is_tensor(x)]
        if op.name == "func.return":
            for x in operands:
                say(x, 0, op)
        elif op.name in BOUNDARIES:
            source, target = integer(op, "source"), integer(op, "target")
            if op.name != BOUNDARIES[target == 0]:
                problems.append(f"{op}: a crossing to {target} is no {op.name}")
            for x, y in zip(operands, op.results):
                say(x, source, op)
                say(y, target, op)
                if not isinstance(x, ir.BlockArgument) and x.owner.name in BOUNDARIES:
                    problems.append(f"{op}: its operand has crossed before")
                if (x, target) in crossed:
                    problems.append(f"{op}: crosses twice")
                if not list(y.uses):
                    problems.append(f"{op}: dead")
                crossed.add((x, target))
        else:
            tensors = [*operands, *(x for x in op.results if is_tensor(x))]
            for x in tensors[1:]:
                unite(tensors[0], x, op)
    return problems


class Values:
    """Numbers equal expressions equally, across programs; forks, joins and regions only pass values on."""

    def __init__(self):
        self.numbers = {}

    def number(self, *expression) -> int:
        return self.numbers.setdefault(expression, len(self.numbers))

    def returned(self, module: ir.Module) -> list[int]:
        block = block_of(module)
        return self.run(block, [self.number("argument", i) for i in range(len(block.arguments))])

    def run(self, block: ir.Block, arguments: list[int]) -> list[int]:
        """The values that the terminator of ``block`` takes."""
        known = dict(zip(block.arguments, arguments))
        for op in (op.operation for op in block.operations):
            operands = [known[x] for x in op.operands]
            if op.name in ("func.return", "anabranch.yield"):
                return operands
            if op.name in BOUNDARIES:
                results = operands
            elif op.name == "anabranch.region":
                results = self.run(op.regions[0].blocks[0], operands)
            else:
                attributes = tuple(sorted((name, str(attribute)) for name, attribute in op.attributes.items()))
                results = [self.number(op.name, attributes, i, *operands) for i in range(len(op.results))]
            known.update(zip(op.results, results))
        raise AssertionError("a block without terminator")


def work(ops: list[ir.Operation]) -> list[int]:
    """The places of the computing ops among ``ops``."""
    return [integer(op, "n") for op in ops if "n" in op.attributes]


def inside(region: ir.Operation) -> list[ir.Operation]:
    return [op.operation for op in region.regions[0].blocks[0].operations]


@settings(max_examples=150, deadline=None)
@given(programs())
def test_legal_programs_reach_normal_form(program):
    module, values = parse(program.text), Values()
    returned, computed = values.returned(module), work(main_ops(module))
    run_pipeline(module, "builtin.module(verify-streams,legalize-streams,verify-streams)")
    assert stream_problems(module) == []
    assert values.returned(module) == returned and work(main_ops(module)) == computed
    once = str(module)
    run_pipeline(module, "builtin.module(legalize-streams)")
    assert str(module) == once


@settings(max_examples=150, deadline=None)
@given(programs(careful=False))
def test_exactly_the_contradictions_are_refused(program):
    module, values = parse(program.text), Values()
    if program.legal:
        returned = values.returned(module)
        run_pipeline(module, "builtin.module(verify-streams,legalize-streams)")
        assert stream_problems(module) == [] and values.returned(module) == returned
    else:
        with pytest.raises(PassFailed, match="stream"):
            run_pipeline(module, "builtin.module(verify-streams)")


@settings(max_examples=150, deadline=None)
@given(programs())
def test_regions_compute_the_same_on_the_right_streams(program):
    module, values = parse(program.text), Values()
    returned, computed = values.returned(module), work(main_ops(module))
    run_pipeline(module, "builtin.module(legalize-streams,form-regions)")
    *regions, end = main_ops(module)
    assert values.returned(module) == returned
    # Nothing but regions, which run each op once, and on the stream that forks and joins say.
    assert {op.name for op in regions} <= {"anabranch.region"}
    assert sorted(n for region in regions for n in work(inside(region))) == computed
    for region in regions:
        stream = integer(region, "stream")
        assert not {op.name for op in inside(region)} & set(BOUNDARIES)
        assert {program.streams.get(n, stream) for n in work(inside(region))} <= {stream}


@settings(max_examples=150, deadline=None)
@given(programs())
def test_regions_wait_for_no_later_work_and_hold_back_no_earlier_work(program):
    module = parse(program.text)
    run_pipeline(module, "builtin.module(legalize-streams,form-regions)")
    *regions, _ = main_ops(module)
    for i, region in enumerate(regions):
        for value in region.operands:
            if isinstance(value, ir.BlockArgument):
                continue
            giver = value.owner
            assert any(giver == earlier for earlier in regions[:i])
            if integer(giver, "stream") != integer(region, "stream"):
                assert max(work(inside(giver))) < min(work(inside(region)))


CONTRADICTIONS = {
    "an argument used on a side stream without a fork": (
        '%a = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t\n'
        "%b = torch.aten.mul.Tensor %a, %y : !t, !t -> !t\n"
        '%r = "anabranch.join_stream"(%b) {source = 1 : i64, target = 0 : i64} : (!t) -> !t',
        "on streams",
    ),
    "a result that is not joined": (
        '%r = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t',
        "on streams",
    ),
    "there and back": (
        '%a = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t\n'
        '%r = "anabranch.join_stream"(%a) {source = 1 : i64, target = 0 : i64} : (!t) -> !t',
        "has crossed before",
    ),
    "a dead fork": (
        '%a = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64} : (!t) -> !t\n'
        "%r = torch.aten.relu %x : !t -> !t",
        "dead",
    ),
}


@pytest.mark.parametrize("lines, problem", CONTRADICTIONS.values(), ids=list(CONTRADICTIONS))
def test_the_check_of_normal_form_can_fail(lines, problem):
    text = f"!t = !torch.vtensor\nfunc.func @main(%x: !t, %y: !t) -> !t {{\n{lines}\nreturn %r : !t\n}}"
    assert any(problem in p for p in stream_problems(parse(text)))
