"""The README says what is so: its example runs and is the file it names, and its passes and replays are the tool's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

import anabranch
from anabranch.lowering import opt
from anabranch.lowering.passes import PASSES, summary
from anabranch.runtime.options import Options

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLE = ROOT / "examples" / "two_branches.py"


def test_the_example_is_the_file():
    assert f"```python\n{EXAMPLE.read_text()}```" in README


def test_the_example_runs_and_prints_and_plans_what_the_readme_shows():
    # Block sizes differ on a GPU: the README shows what a machine without one gives.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().split("\n\n")
    shown = [line.strip() for line in README.split("prints, for the example:")[1].split("...")[0].strip().splitlines()]
    assert first.splitlines()[: len(shown)] == second.splitlines()[: len(shown)] == shown
    plan = Path(re.search(r"^plan +(.+)$", first, re.MULTILINE)[1]).read_text()
    assert README.split("The end of the\nexample's:\n\n```python\n")[1].split("```")[0] in plan


def test_the_passes_are_listed_in_order_with_their_sentences():
    rows = re.findall(
        r"^\| `([a-z-]+)` \| (.+) \|$", README.split("| pass | what it does |")[1].split("**`")[0], re.MULTILINE
    )
    assert rows == [(name, summary(name).replace("``", "`")) for name in PASSES]


def test_the_options_are_listed():
    rows = re.findall(r"^\| `(\w+)` \|", README.split("| option | meaning |")[1].split("\n\n")[0], re.MULTILINE)
    assert rows == list(Options.__dataclass_fields__)


def test_the_commands_that_replay_a_dump_give_its_stages(tmp_path, monkeypatch):
    def program(x, w):
        with anabranch.stream(1):
            side = torch.softmax(x @ w, -1)
        return side + x.relu()

    torch.compiler.reset()
    with torch.no_grad():
        torch.compile(program, backend="anabranch", options={"dump_dir": tmp_path})(torch.ones(8, 8), torch.ones(8, 8))
    monkeypatch.chdir(anabranch.last_report().dump_dir)
    whole = re.search(r"anabranch-opt --pass-pipeline='(.+)' (02-value-form.mlir)\n", README).groups()
    one = re.search(r"anabranch-opt (--elide-waits) (09-schedule.mlir)\n", README).groups()
    assert opt.main(["--pass-pipeline", whole[0], whole[1], "-o", "whole.mlir"]) == 0
    assert Path("whole.mlir").read_text() == Path("12-verify-schedule.mlir").read_text()
    assert opt.main([*one, "-o", "one.mlir"]) == 0
    assert Path("one.mlir").read_text() == Path("10-elide-waits.mlir").read_text()


def test_what_the_readme_names_is_there():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"make (demo|test|bench)\b", README)) <= set(targets)
    named = re.findall(r"`?((?:benchmarks|examples)/\w+\.(?:py|svg))", README)
    assert named and all((ROOT / path).is_file() for path in named)
