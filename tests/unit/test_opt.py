"""What ``anabranch-opt`` says and how it exits, as whoever types the commands sees it."""

import re
import subprocess
import sys

import pytest

from anabranch.lowering.expected_diagnostics import UnreadableExpectation, parse_expectations
from anabranch.lowering.opt import main
from anabranch.lowering.passes import PASSES, PassFailed, UnknownPass, run_pipeline, summary
from anabranch.lowering.pipeline_syntax import PipelineSyntaxError, parse_pipeline

RACE = """module attributes {anabranch.streams = {"0" = "current", "1" = "pool"}} {
  func.func @main(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
    %x1 = "anabranch.fork_stream"(%x) {source = 0 : i64, target = 1 : i64}
      : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
    return %x1 : !torch.vtensor<[4],f32>
  }
}
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str):
        path = tmp_path / "input.mlir"
        path.write_text(text)
        return str(path)

    return write


def test_help_lists_each_pass_with_its_sentence(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["--help"])
    assert exit.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name in PASSES:
        assert f"--{name}" in text and summary(name) in text
    for option in ("--pass-pipeline", "--split-input-file", "--verify-diagnostics", "--mlir-print-ir-after-all"):
        assert option in text


def test_an_unknown_pass(file, capsys):
    assert main([file(RACE), "--pass-pipeline=builtin.module(verify-stream)"]) == 1
    error = capsys.readouterr().err
    assert "unknown pass 'verify-stream'; did you mean 'verify-streams'?" in error
    assert "'anabranch-opt --help' lists the passes of anabranch" in error
    assert UnknownPass.message.startswith("unknown pass")


def test_a_pass_inside_another(file, capsys):
    assert main([file(RACE), "--pass-pipeline=builtin.module(func.func(verify-streams))"]) == 1
    assert "passes of anabranch run on a whole module, write it in 'builtin.module(...)'" in capsys.readouterr().err


def test_malformed_mlir(file, capsys):
    assert main([file("func.func @main( {\n}\n"), "--verify-streams"]) == 1
    error = capsys.readouterr().err
    assert re.search(r"input\.mlir:1:17: error: ", error) and "func.func @main( {" in error and "^" in error


def test_an_unknown_op(file, capsys):
    assert main([file('func.func @f() {\n  "anabranch.fork_steam"() : () -> ()\n  return\n}\n')]) == 1
    assert "unknown op 'anabranch.fork_steam': did you mean 'anabranch.fork_stream'?" in capsys.readouterr().err


def test_a_missing_file(capsys):
    assert main(["no-such-file.mlir"]) == 1
    assert "cannot read 'no-such-file.mlir': No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, problem",
    [("cse", "not wrapped in"), ("builtin.module(cse", "not wrapped"), ("builtin.module(a(b)", "never closed")],
)
def test_a_pipeline_that_cannot_be_read(file, capsys, text, problem):
    with pytest.raises(PipelineSyntaxError, match=problem):
        parse_pipeline(text)
    assert main([file(RACE), f"--pass-pipeline={text}"]) == 1
    assert "Write it as 'builtin.module(" in capsys.readouterr().err


def test_a_failing_pass_prints_the_command_that_repeats_it(file):
    """The printed command, run by a shell, fails in the same way."""
    opt = f"{sys.executable} -m anabranch.lowering.opt"
    first = subprocess.run(f"{opt} {file(RACE)} --verify-streams", shell=True, capture_output=True, text=True)
    assert first.returncode == 1
    message = "'func.return' op returns %0 on stream 1"
    assert message in first.stderr and "pass 'verify-streams' failed" in first.stderr
    command = re.search(r"^  anabranch-opt (.*)$", first.stderr, re.MULTILINE)[1]
    again = subprocess.run(f"{opt} {command}", shell=True, capture_output=True, text=True)
    assert again.returncode == 1 and message in again.stderr


def test_the_input_of_a_failing_pass_is_what_the_pass_before_it_made(file, capsys):
    pipeline = "builtin.module(legalize-streams,form-regions,form-kernels)"
    good = RACE.replace("return %x1", "return %x").replace("%x1 =", "%x1 =")
    assert main([file(good), f"--pass-pipeline={pipeline}"]) == 1
    error = capsys.readouterr().err
    assert "does not say where it lies" in error and "--pass-pipeline='builtin.module(form-kernels)'" in error


def test_an_expected_diagnostic_that_does_not_come(file, capsys):
    text = "// expected-error@+1 {{never said}}\nfunc.func @f() {\n  return\n}\n"
    assert main([file(text), "--verify-streams", "--verify-diagnostics"]) == 1
    assert "expected error 'never said' on line 2 was not produced" in capsys.readouterr().err


def test_a_diagnostic_that_is_not_expected(file, capsys):
    assert main([file(RACE), "--verify-streams", "--verify-diagnostics"]) == 1
    assert "unexpected" in capsys.readouterr().err


@pytest.mark.parametrize("comment", ["expected-error@+1 {{text}", "expected-error@+1 {text}", "expected-eror@+1 {{text}}"])
def test_an_expectation_that_cannot_be_read(file, capsys, comment):
    text = f"// {comment}\nfunc.func @f() {{\n  return\n}}\n"
    with pytest.raises(UnreadableExpectation):
        parse_expectations(text.splitlines())
    assert main([file(text), "--verify-streams", "--verify-diagnostics"]) == 1
    error = capsys.readouterr().err
    assert comment in error and "expects nothing: write it as 'expected-error@+1 {{text}}'" in error and "line 1" in error


def test_a_file_that_is_no_text(tmp_path, capsys):
    path = tmp_path / "input.mlir"
    path.write_bytes(b"\xff\xfe")
    assert main([str(path)]) == 1
    assert "input.mlir': it is not text in UTF-8" in capsys.readouterr().err


def test_an_output_that_cannot_be_written(file, tmp_path, capsys):
    assert main([file(RACE), "-o", str(tmp_path / "absent" / "out.mlir")]) == 1
    assert "absent/out.mlir': No such file or directory" in capsys.readouterr().err


def test_passes_and_a_pipeline_at_once(file, capsys):
    with pytest.raises(SystemExit) as exit:
        main([file(RACE), "--verify-streams", "--pass-pipeline=builtin.module()"])
    assert exit.value.code == 2
    assert "give either --pass-pipeline or single passes" in capsys.readouterr().err


def test_a_place_in_another_file_shows_no_line_of_this_one(file, capsys):
    """A program that was imported carries the places of the Python code it comes from."""
    here = "    return %x1 : !torch.vtensor<[4],f32>"
    elsewhere = RACE.replace(here, f'{here} loc("model.py":2:3)')
    assert main([file(elsewhere), "--verify-streams"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("model.py:2:3: error: 'func.return' op") and lines[1].startswith("anabranch-opt: pass")


def test_the_command_that_repeats_a_failure_is_quoted(file, tmp_path, monkeypatch, capfd):
    """The folder for temporary files may have a space in its name."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert main([file(RACE), "--verify-streams"]) == 1
    command = re.search(r"^  anabranch-opt (.*)$", capfd.readouterr().err, re.MULTILINE)[1]
    opt = f"{sys.executable} -m anabranch.lowering.opt"
    again = subprocess.run(f"{opt} {command}", shell=True, capture_output=True, text=True)
    assert "'func.return' op returns %0 on stream 1" in again.stderr


def test_a_defect_of_a_pass_shows_where_it_is(file, capsys, monkeypatch):
    def verify_streams(module):
        raise KeyError("no such value")

    monkeypatch.setattr("anabranch.lowering.passes.load_pass", lambda name: verify_streams)
    assert main([file(RACE), "--verify-streams"]) == 1
    error = capsys.readouterr().err
    assert "error: KeyError: 'no such value'" in error
    assert "Traceback" in error and ", in verify_streams" in error and "To repeat:" in error


def test_a_failing_pass_of_mlir_is_repeated_too(file):
    opt = f"{sys.executable} -m anabranch.lowering.opt"
    text = """func.func @f(%x: !torch.vtensor<[4],f32>) {
  %0 = torch.operator "torch.aten.mine"(%x) : (!torch.vtensor<[4],f32>) -> !torch.int
  return
}
"""
    pipeline = "builtin.module(canonicalize,torch-backend-to-linalg-on-tensors-backend-pipeline)"
    first = subprocess.run(f"{opt} {file(text)} --pass-pipeline='{pipeline}'", shell=True, capture_output=True, text=True)
    assert first.returncode == 1 and "failed to legalize" in first.stderr
    command = re.search(r"^  anabranch-opt (.*)$", first.stderr, re.MULTILINE)[1]
    assert "canonicalize" not in command
    again = subprocess.run(f"{opt} {command}", shell=True, capture_output=True, text=True)
    assert again.returncode == 1 and "failed to legalize" in again.stderr


def test_a_failing_pass_from_python_names_its_reasons():
    from torch_mlir import ir

    from anabranch.dialect.ops import new_context

    module = ir.Module.parse(RACE, new_context())
    with pytest.raises(PassFailed, match="pass 'verify-streams' failed\n.*returns %0 on stream 1"):
        run_pipeline(module, "builtin.module(verify-streams)")
