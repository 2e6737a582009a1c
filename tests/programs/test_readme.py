"""The README says what is so: its example runs, its report, plan and stages are those of the example, its command works."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.lowering import opt

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLE, PLAN = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
# What differs from run to run, and from machine to machine.
VARYING = ("compiled in", "plan ")


def run(file: Path) -> str:
    """What the program in ``file`` prints on simulated streams, whose report and plan the README shows."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, file.name], cwd=file.parent, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def stages(tmp_path_factory) -> list[Path]:
    """The folders of the example's two functions, compiled with the option that the README names."""
    folder = tmp_path_factory.mktemp("readme")
    option = re.search(r'options=\{"dump_dir": "stages"\}', README)[0]
    assert "@anabranch.compile\n" in EXAMPLE
    decorator = f'@(lambda f: torch.compile(f, backend="anabranch", {option}))'
    (folder / "example.py").write_text(re.sub(r"@anabranch\.compile(?=\s)", decorator, EXAMPLE))
    run(folder / "example.py")
    return sorted((folder / "stages").iterdir())


def test_the_example_runs_and_prints_the_report_that_is_shown(tmp_path):
    (tmp_path / "example.py").write_text(EXAMPLE)
    printed = run(tmp_path / "example.py").splitlines()
    shown = re.search(r"((?:^    .+\n)+)", README.split("prints what the last compiled graph does:")[1], re.MULTILINE)[1]
    shown = [line[4:] for line in shown.splitlines()]
    assert [line for line in printed if not line.startswith(VARYING)] == [x for x in shown if not x.startswith(VARYING)]
    assert [line.split("  ")[0] for line in printed] == [line.split("  ")[0] for line in shown]


def test_the_plan_that_is_shown_is_the_examples(stages):
    assert PLAN in (stages[0] / "13-plan.py").read_text()


def test_the_table_of_stages_lists_the_files_in_order(stages):
    listed = re.findall(r"`(\d\d-[a-z-]+\.\w+)`", README)
    for folder in stages:
        assert listed == sorted(path.name for path in folder.iterdir())


def test_the_command_that_replays_stages_gives_the_later_stage(stages, monkeypatch, capsys):
    command = re.search(r"^    anabranch-opt (stages/.+ \\\n.+)$", README, re.MULTILINE)[1]
    monkeypatch.chdir(stages[0].parents[1])
    assert opt.main(shlex.split(command.replace("\\\n", " "))) == 0
    assert capsys.readouterr().out == (stages[0] / "10-elide-waits.mlir").read_text()


def test_the_file_in_examples_runs():
    assert run(ROOT / "examples" / "two_branches.py").count("all ordered") == 2


def test_what_the_readme_names_is_there():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^    make (\w+)", README, re.MULTILINE)
    assert {"demo", "test"} <= set(commands) <= set(targets)
    paths = set(re.findall(r"[`(]((?:dialect|lowering|runtime|benchmarks|examples)/\w*\.(?:py|svg))[`)]", README))
    assert len(paths) >= 4 and all((ROOT / path).is_file() for path in paths)
