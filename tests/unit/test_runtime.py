"""Plans, simulated streams and the cache: what runs when, what a missing wait does, and what the disk may do to a file."""

import subprocess
import sys

import pytest
import torch

import anabranch
from anabranch.runtime.cache import CorruptCacheWarning, PlanCache, UnusableCacheWarning, cache_dir
from anabranch.runtime.plan import load_plan
from anabranch.runtime.report import Report
from anabranch.runtime.simulate import Deadlock, SimulatedRuntime

CPU = torch.device("cpu")
# Stream 1 makes b0, stream 0 reads it; the arena's bytes are used twice.
PLAN = """
import torch
import triton
import triton.language as tl

aten = torch.ops.aten
STREAMS = {0: "current", 1: "pool"}
FACTS = {}


@triton.jit
def double(in_ptr0, out_ptr0, XBLOCK: tl.constexpr):
    x = tl.arange(0, XBLOCK)
    tl.store(out_ptr0 + x, tl.load(in_ptr0 + x) * 2)


def buffers(rt):
    arena = rt.arena("cpu", 1024)
    b0 = rt.buffer(arena, 0, (4,), (1,), torch.float32)
    b1 = rt.buffer(arena, 512, (4,), (1,), torch.float32)
    b2 = rt.buffer(arena, 0, (4,), (1,), torch.float32)
    return b0, b1, b2


def call(rt, args):
    (a0,) = args
    s0 = rt.stream(0)
    s1 = rt.stream(1)
    b0, b1, b2 = rt.memory(buffers)
    b3 = rt.output((4,), (1,), torch.float32, "cpu")
    e0 = rt.record(s0)
    rt.wait(s1, e0)
    rt.launch(s1, double, (1,), a0, b0, XBLOCK=4)
    e1 = rt.record(s1)
    rt.wait(s0, e1)
    rt.launch(s0, double, (1,), b0, b1, XBLOCK=4)
    rt.call(s0, aten.add.out, b1, a0, out=b2)
    (b4,) = rt.call_new(s0, [((4,), (1,), torch.float32, "cpu")], aten.neg.default, b2)
    rt.call(s0, aten.copy_.default, b3, b4)
    return (b3,)
"""


@pytest.fixture
def load(tmp_path):
    def write(text: str):
        path = tmp_path / f"plan_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        return load_plan(path, CPU)

    return write


def test_a_plan_gives_the_same_under_every_order(load):
    plan, x = load(PLAN), torch.arange(4.0)
    for seed in range(30):
        assert torch.equal(plan.run([x], CPU, seed=seed)[0], -5 * x)


def test_a_missing_wait_gives_a_wrong_number_under_some_order(load):
    plan, x = load(PLAN.replace("    rt.wait(s0, e1)\n", "")), torch.arange(4.0)
    results = [plan.run([x], CPU, seed=seed)[0] for seed in range(8)]
    assert any(result.isnan().any() for result in results)


def test_bytes_taken_too_early_give_a_wrong_number_under_some_order(load):
    """b0 in the bytes that stream 0 writes without waiting for the reader on stream 1."""
    early = PLAN.replace("    rt.wait(s0, e1)\n", "").replace(
        "rt.launch(s0, double, (1,), b0, b1", "rt.launch(s1, double, (1,), b0, b1"
    )
    plan, x = load(early), torch.arange(4.0) + 1
    assert any(not torch.equal(plan.run([x], CPU, seed=seed)[0], -5 * x) for seed in range(16))


def test_streams_that_wait_for_each_other_are_an_error(load):
    plan = load(PLAN.replace("e0 = rt.record(s0)\n    rt.wait(s1, e0)", "rt.wait(s0, 2)\n    rt.wait(s1, 3)"))
    with pytest.raises(Deadlock, match="streams 0, 1 wait for events that no stream will record"):
        plan.run([torch.ones(4)], CPU)


def test_memory_is_poisoned_before_and_after():
    rt = SimulatedRuntime({0: "current"})
    arena = rt.arena("cpu", 512)
    buffer = rt.buffer(arena, 0, (4,), (1,), torch.float32)
    output = rt.output((2, 2), (1, 2), torch.float32, "cpu")
    assert buffer.isnan().all() and output.isnan().all() and output.stride() == (1, 2)
    rt.call(0, torch.ops.aten.fill_.Scalar, buffer, 1.0)
    rt.finish()
    assert buffer.isnan().all()


def test_seeds_give_different_orders_and_a_seed_always_the_same():
    def order(seed: int) -> list:
        rt = SimulatedRuntime({0: "current", 1: "pool", 2: "pool"}, seed)
        for i in range(3):
            for stream in range(3):
                rt.call(stream, torch.ops.aten.add_.Scalar, torch.zeros(1), i)
        rt.finish()
        return rt.trace

    orders = [order(seed) for seed in range(12)]
    assert len({tuple(o) for o in orders}) > 6
    assert orders == [order(seed) for seed in range(12)]
    # An even seed runs one stream to its end before another begins.
    assert [s for s, _ in orders[0]] == sorted([s for s, _ in orders[0]], key=[s for s, _ in orders[0]].index)


def test_triton_is_left_as_it_was(load):
    import triton

    before = triton.knobs.runtime.interpret
    load(PLAN)
    assert triton.knobs.runtime.interpret == before


def test_a_plan_is_found_again_by_its_key(tmp_path):
    cache = PlanCache(tmp_path / "new")
    key = cache.key("a", "bc")
    assert key != cache.key("ab", "c")
    assert cache.get(key) is None
    path = cache.put(key, "x = 1\n")
    assert cache.get(key) == path and path.read_text().endswith("x = 1\n")
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-5], lambda b: b"", lambda b: b.replace(b"x = 1", b"x = 2"), lambda b: b"\xff" * 40]
)
def test_a_corrupt_file_is_said_and_removed(tmp_path, damage):
    cache = PlanCache(tmp_path)
    path = cache.put("k", "x = 1\n")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(CorruptCacheWarning, match="is corrupt .* removed and the program is compiled again"):
        assert cache.get("k") is None
    assert not path.exists()


def test_a_folder_that_cannot_be_written_is_said_and_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    cache = PlanCache(tmp_path / "file" / "below")
    with pytest.warns(UnusableCacheWarning, match="plans cannot be cached in .* set ANABRANCH_CACHE_DIR to a folder"):
        path = cache.put("k", "x = 1\n")
    assert path.read_text().endswith("x = 1\n")
    assert cache.get("k") is None


def test_the_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("ANABRANCH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "anabranch"


def program(x):
    with anabranch.stream(1):
        h = torch.softmax(x, -1)
    return h + x.sin()


def compile_and_run(**options) -> Report:
    torch.compiler.reset()
    x = torch.randn(4, 4)
    torch.testing.assert_close(anabranch.compile(program, **options)(x), program(x))
    return anabranch.last_report()


def test_a_program_compiles_once_and_again_if_its_plan_is_corrupt(monkeypatch, tmp_path):
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path))
    first, second = compile_and_run(), compile_and_run()
    assert (first.cache, second.cache) == ("miss", "hit")
    assert (
        first.launches == second.launches and first.waits == second.waits and first.access_pairs == second.access_pairs > 0
    )
    with open(first.plan, "a") as file:
        file.write("# damaged\n")
    with pytest.warns(CorruptCacheWarning):
        assert compile_and_run().cache == "miss"
    assert compile_and_run(cache=False).cache == "off"


def test_an_op_that_lays_its_result_out_anew_is_compiled_anew(monkeypatch, tmp_path):
    """The graph is the same, and so are its arguments: only the op's own shape function says another thing."""
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path))
    strides = [(4, 1)]

    @torch.library.custom_op("anabranch_tests::laid_out", mutates_args=())
    def laid_out(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(x.shape, strides[0]).copy_(x)

    @laid_out.register_fake
    def _(x):
        return torch.empty_strided(x.shape, strides[0])

    def program(x):
        return laid_out(x).sin()

    x = torch.randn(4, 4)
    caches = []
    for strides[0] in [(4, 1), (4, 1), (1, 4)]:
        torch.compiler.reset()
        torch.testing.assert_close(anabranch.compile(program)(x), x.sin())
        caches.append(anabranch.last_report().cache)
    assert caches == ["miss", "hit", "miss"]


def test_a_cached_program_runs_without_torch_mlir(monkeypatch, tmp_path):
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "if sys.argv[1:] == ['without']:\n"
        "    sys.modules['torch_mlir'] = None\n"
        "import torch, anabranch\n"
        "def program(x):\n"
        "    with anabranch.stream(1):\n"
        "        h = torch.softmax(x, -1)\n"
        "    return h + x.sin()\n"
        "x = torch.ones(4, 4)\n"
        "torch.testing.assert_close(anabranch.compile(program)(x), program(x))\n"
        "print(anabranch.last_report().cache)\n"
    )
    run = lambda *args: subprocess.run([sys.executable, str(script), *args], capture_output=True, text=True)  # noqa: E731
    assert run().stdout.strip() == "miss"
    second = run("without")
    assert second.stdout.strip() == "hit", second.stderr


def test_the_dump_has_each_stage_in_order(tmp_path):
    report = compile_and_run(dump_dir=tmp_path)
    names = sorted(p.name for p in (tmp_path / report.dump_dir.split("/")[-1]).iterdir())
    assert [n.split("-", 1)[1] for n in names] == [
        "annotated-graph.txt",
        "explicit-graph.txt",
        "value-form.mlir",
        "raise-stream-ops.mlir",
        "verify-streams.mlir",
        "legalize-streams.mlir",
        "form-regions.mlir",
        "form-kernels.mlir",
        "lower-kernels.mlir",
        "schedule.mlir",
        "elide-waits.mlir",
        "plan-memory.mlir",
        "verify-schedule.mlir",
        "plan.py",
    ]


def test_a_dumped_stage_goes_on_through_the_tool(tmp_path):
    from anabranch.lowering.opt import main

    report = compile_and_run(dump_dir=tmp_path)
    stage = next((tmp_path / report.dump_dir.split("/")[-1]).glob("*-form-regions.mlir"))
    out = tmp_path / "out.mlir"
    passes = "form-kernels,lower-kernels,schedule,elide-waits,plan-memory,verify-schedule"
    assert main([str(stage), f"--pass-pipeline=builtin.module({passes})", "-o", str(out)]) == 0
    last = next((tmp_path / report.dump_dir.split("/")[-1]).glob("*-verify-schedule.mlir"))
    assert out.read_text().strip() == last.read_text().strip()
