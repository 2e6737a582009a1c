"""What the benchmarks compute from their measurements; the measuring itself needs a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import anabranch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def overlap(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from overlap import overlap

    return overlap


def kernel(stream: int, start: float, duration: float) -> dict:
    return {"cat": "kernel", "args": {"stream": stream}, "ts": start, "dur": duration}


def test_overlap_is_the_time_in_which_kernels_of_two_streams_run(overlap):
    events = [kernel(7, 0, 10), kernel(7, 10, 10), kernel(13, 5, 10), {"cat": "cpu_op", "ts": 0, "dur": 100}]
    assert overlap(events, calls=1) == {"us_per_call": 10, "busy_us_by_stream": {"7": 20, "13": 10}}
    assert overlap(events, calls=2) == {"us_per_call": 5, "busy_us_by_stream": {"7": 10, "13": 5}}


def test_kernels_one_after_the_other_do_not_overlap(overlap):
    assert overlap([kernel(7, 0, 10), kernel(13, 10, 10), kernel(7, 20, 5)], calls=1)["us_per_call"] == 0
    assert overlap([], calls=1) == {"us_per_call": 0, "busy_us_by_stream": {}}


def test_a_results_file_says_what_was_measured_and_where(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from record import save, summary

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    figures = {"eager": summary([3.0, 1.0, 2.0])}
    content = json.loads(save("demo", "benchmarks/demo.py", figures, "notes", tmp_path).read_text())
    assert content["figures"]["eager"] == {"median_us": 2.0, "spread_us": 2.0, "repeats_us": [3.0, 1.0, 2.0]}
    assert content["gpu"] == "NVIDIA H200" and content["torch"] == torch.__version__
    assert content["script"] == "benchmarks/demo.py" and content["date"] in next(tmp_path.iterdir()).name


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what a machine without CUDA says")
@pytest.mark.parametrize("script", ["two_branches.py", "demo.py"])
def test_without_a_gpu_a_benchmark_says_so(script):
    done = subprocess.run([sys.executable, BENCHMARKS / script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f"{script}: needs a CUDA GPU: it measures time on streams, which a CPU only simulates" in done.stderr


@pytest.mark.parametrize("name", ["dlrm", "moe_shared", "towers8", "parallel_block", "mem_gemm"])
def test_a_small_workload_computes_what_eager_does(name, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from workloads import programs

    torch.manual_seed(0)
    model, inputs = programs(torch.device("cpu"), small=True)[name]()
    with torch.no_grad():
        for seed in range(2):
            torch.compiler.reset()
            compiled = torch.compile(model, backend="anabranch", fullgraph=True, options={"seed": seed})
            torch.testing.assert_close(compiled(*inputs), model(*inputs), rtol=3e-2, atol=3e-2)
    streams = {stream for stream, _, _ in anabranch.last_report().launches}
    assert streams == ({0, 1, 2, 3, 4} if name == "towers8" else {0, 1})
