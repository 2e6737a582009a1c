"""Properties of schedules of random programs: the proof accepts them, and no wait can be dropped unseen."""

import itertools

import pytest
from torch_mlir import ir

from anabranch.dialect.ops import functions, new_context
from anabranch.lowering.happens_before import Clocks
from anabranch.lowering.passes import PassFailed, run_pipeline
from anabranch.lowering.schedule_form import WORK, accesses, operations, root, stream_of
from tests.unit.random_schedules import kernel_form

SEEDS = range(40)


def run(text: str, *passes: str) -> ir.Module:
    module = ir.Module.parse(text, new_context())
    run_pipeline(module, f"builtin.module({','.join(passes)})")
    return module


def main(module: ir.Module):
    (function,) = functions(module)
    return function


def waits(module: ir.Module) -> list[ir.Operation]:
    return [op for op in operations(main(module)) if op.name == "anabranch.wait_event"]


def ordered_pairs(module: ir.Module) -> list[tuple[int, int]]:
    """Which work is ordered before which, by numbers in host order."""
    ops = operations(main(module))
    clocks, work = Clocks.of(ops), [op for op in ops if op.name in WORK]
    return [(i, j) for (i, a), (j, b) in itertools.permutations(enumerate(work), 2) if clocks.before(a, b)]


@pytest.mark.parametrize("seed", SEEDS)
def test_schedules_are_free_of_races_and_every_wait_is_needed(seed):
    placed = str(run(kernel_form(seed), "schedule", "elide-waits", "plan-memory"))
    run(placed, "verify-schedule")
    for i in range(len(waits(run(placed)))):
        module = run(placed)
        waits(module)[i].erase()
        with pytest.raises(PassFailed, match="race: "):
            run(str(module), "verify-schedule")


@pytest.mark.parametrize("seed", SEEDS)
def test_elision_keeps_the_order_of_all_work(seed):
    naive = run(kernel_form(seed), "schedule")
    elided = run(kernel_form(seed), "schedule", "elide-waits")
    assert ordered_pairs(naive) == ordered_pairs(elided)
    assert len(waits(elided)) <= len(waits(naive))


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_bytes_are_never_in_use_twice(seed):
    module = run(kernel_form(seed, regions=12), "schedule", "elide-waits", "plan-memory")
    ops = operations(main(module))
    order = set(ordered_pairs(module))
    work = [op for op in ops if op.name in WORK]
    users: dict[ir.Value, list[int]] = {}
    for i, op in enumerate(work):
        access = accesses(op)
        for memory in [*access.reads, *access.writes]:
            users.setdefault(memory, []).append(i)
    arena = [op for op in ops if op.name == "anabranch.alloc" and op.attributes["space"].value == "arena"]
    for a, b in itertools.combinations(arena, 2):
        if a.attributes["offset"].value == b.attributes["offset"].value:
            assert all((i, j) in order for i in users[a.results[0]] for j in users[b.results[0]])


def test_plans_reuse_memory():
    """That the bytes in use are fewer than the buffers' sum, else the test above says nothing."""
    module = run(kernel_form(0, streams=2, regions=12), "schedule", "elide-waits", "plan-memory")
    buffers = [
        op for op in operations(main(module)) if op.name == "anabranch.alloc" and op.attributes["space"].value == "arena"
    ]
    arena = ir.DictAttr(main(module).operation.attributes["anabranch.arena"])
    assert ir.IntegerAttr(arena["cpu"]).value < 512 * len(buffers)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_work_runs_on_its_regions_stream(seed):
    text = kernel_form(seed)
    unscheduled = run(text)
    expected: dict[int, int] = {}
    for region in operations(main(unscheduled)):
        if region.name == "anabranch.region":
            calls = [op for op in region.regions[0].blocks[0].operations if "view" not in op.operation.name]
            stream = region.attributes["stream"].value
            expected[stream] = expected.get(stream, 0) + len(calls) - 1
    found: dict[int, int] = {}
    scheduled = run(text, "schedule")
    for op in operations(main(scheduled)):
        # Copies that hand a side stream's memory to the caller are the schedule's own.
        if op.name in WORK and op.attributes["callee"] != ir.StringAttr.get("aten.copy_.default", op.context):
            found[stream_of(op)] = found.get(stream_of(op), 0) + 1
    assert found == {stream: n for stream, n in expected.items() if n}


def test_memory_is_found_through_views():
    module = run(kernel_form(3, streams=1, regions=6), "schedule")
    views = [op for op in operations(main(module)) if op.name == "anabranch.view"]
    assert views
    for view in views:
        memory = root(view.results[0])
        assert isinstance(memory, ir.BlockArgument) or memory.owner.operation.name == "anabranch.alloc"
