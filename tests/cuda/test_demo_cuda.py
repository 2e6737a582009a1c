"""The demo on real streams: right, with its copies on the user's stream, and no wait of the host."""

import re

import pytest
import torch

import anabranch
from anabranch import cli, demo, minilm
from tests.programs.harness import by_stream

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
    pytest.mark.skipif(demo.model_folder() is None, reason="the model's weights are not installed: make demo"),
]


def test_the_demo_is_right_and_says_how_long_it_takes(capsys):
    torch.compiler.reset()
    code = cli.main(["demo"])
    text = capsys.readouterr().out
    assert code == 0 and text.endswith("anabranch demo: ok\n")
    for name in ("eager", "anabranch"):
        assert re.search(rf"^{name} +\d+ us a call, median of 50 ", text, re.MULTILINE)
    report = anabranch.last_report()
    assert report.streams == {0: "current", 1: "user"}
    assert by_stream(report)[1] == [("_to_copy",)] * (1 + 4 + 6 * 16)
    assert all("_to_copy" not in ops for ops in by_stream(report)[0])


def test_the_demos_model_never_makes_the_host_wait():
    device = torch.device("cuda", torch.cuda.current_device())
    model = minilm.load(demo.model_folder(), device)
    ids, mask = minilm.tokenize(demo.model_folder(), list(demo.SENTENCES))
    mask = mask.to(device)
    torch.compiler.reset()
    with torch.no_grad():
        compiled = torch.compile(model, backend="anabranch", fullgraph=True)
        expected = model(ids, mask)
        compiled(ids, mask)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            result = compiled(ids, mask)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
        torch.testing.assert_close(result, expected, rtol=0, atol=demo.TOLERANCE)
