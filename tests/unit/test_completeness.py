"""Nothing is without its test: each pass has its lit files, each op a lit case, each error a test that raises it."""

import ast
import importlib
import pkgutil
import re
from difflib import SequenceMatcher
from pathlib import Path

import pytest

import anabranch
import anabranch.dialect.ops  # noqa: F401  (enters the ops into Op.CLASSES)
from anabranch.dialect.definition import Op
from anabranch.dialect.errors import AnabranchError
from anabranch.lowering.passes import PASSES, summary

TESTS = Path(__file__).parent.parent
LIT = TESTS / "lit"


def modules():
    return [
        importlib.import_module(module.name)
        for folder in ("dialect", "lowering", "runtime")
        for module in pkgutil.iter_modules(importlib.import_module(f"anabranch.{folder}").__path__, f"anabranch.{folder}.")
    ]


def errors() -> list[type]:
    found = {value for module in modules() for value in vars(module).values() if isinstance(value, type)}
    return sorted((e for e in found if issubclass(e, AnabranchError) and e is not AnabranchError), key=lambda e: e.__name__)


def missing_lit_files(name: str) -> list[str]:
    """The lit files that the pass ``name`` lacks: one of what it does, and one of what it refuses, if anything."""
    needed = {f"{name}.mlir": "// CHECK"}
    if "Refuses nothing" not in importlib.import_module(PASSES[name]).__doc__:
        needed[f"{name}-invalid.mlir"] = "expected-error"
    folder = LIT / PASSES[name].split(".")[1]
    texts = {file: (folder / file).read_text() if (folder / file).exists() else "" for file in needed}
    return [file for file, text in texts.items() if name not in text.split("\n")[0] or needed[file] not in text]


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_has_its_lit_files_and_its_sentence(name):
    assert missing_lit_files(name) == []
    assert summary(name).endswith(".") and len(summary(name)) < 130


def test_a_pass_without_lit_files_is_noticed(monkeypatch):
    monkeypatch.setitem(PASSES, "forget-streams", "anabranch.lowering.verify_streams")
    assert missing_lit_files("forget-streams") == ["forget-streams.mlir", "forget-streams-invalid.mlir"]


@pytest.mark.parametrize("file", sorted(LIT.rglob("*.mlir")), ids=lambda file: file.name)
def test_each_lit_case_says_what_it_tests(file):
    """Each function of a file follows a sentence of its own, but where one sentence speaks of several."""
    first, *parts = re.split(r"^// -----$", file.read_text(), flags=re.MULTILINE)
    assert first.startswith("// RUN: ") and "// Tests that" in first
    assert [part for part in parts if "// Tests that" not in part] == []


def messages(module) -> list[str]:
    """The longest fixed piece of each message that ``module`` passes to ``fail`` or ``emit_error``."""
    found = []
    for call in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in ("fail", "emit_error"):
            pieces = [c.value for c in ast.walk(call.args[0]) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
            found += [max(pieces, key=len).strip()] if pieces else []
    return found


def is_expected(message: str) -> bool:
    """Whether some ``expected-error`` quotes a good part of ``message``."""
    expected = [text for file in LIT.rglob("*.mlir") for text in re.findall(r"expected-error.*?{{(.*?)}}", file.read_text())]
    common = (SequenceMatcher(None, message, text, autojunk=False).find_longest_match().size for text in expected)
    return any(size >= min(len(message), 16) for size in common)


STREAM_MODULES = ("definition", "ops", "membership", "raise_stream_ops")
MESSAGES = [m for name in STREAM_MODULES for m in messages(importlib.import_module(f"anabranch.dialect.{name}"))] + [
    m for path in PASSES.values() if ".lowering." in path for m in messages(importlib.import_module(path))
]


@pytest.mark.parametrize("message", MESSAGES)
def test_each_message_of_a_verifier_or_pass_has_a_case(message):
    assert is_expected(message)


def test_a_message_without_a_case_is_noticed():
    assert not is_expected("is painted in a colour that nobody likes")


@pytest.mark.parametrize("name", sorted(Op.CLASSES))
def test_each_op_has_a_case_that_is_right(name):
    texts = [file.read_text() for file in (LIT / "dialect").glob("*.mlir") if "invalid" not in file.name]
    assert any(f'"{name}"' in text for text in texts)


@pytest.mark.parametrize("name", sorted(n for n, c in Op.CLASSES.items() if c.check is not Op.check))
def test_each_op_with_rules_has_a_case_that_is_refused(name):
    lines = (LIT / "dialect" / "invalid.mlir").read_text().splitlines()
    refused = [after for line, after in zip(lines, lines[1:]) if "expected-error@+1" in line]
    assert any(f'"{name}"' in line for line in refused)


@pytest.mark.parametrize("error", errors(), ids=lambda error: error.__name__)
def test_each_error_is_raised_in_a_test(error):
    here = Path(__file__).name
    sources = [path.read_text() for path in TESTS.rglob("*.py") if path.name != here]
    lit = [path.read_text() for path in LIT.rglob("*.mlir")]
    phrase = max(error.message.replace("{{", "{").split("{"), key=len).split("}")[-1].strip()[:25]
    assert any(error.__name__ in text for text in sources) or any(phrase in text for text in lit)


def test_the_check_of_errors_can_fail():
    class NobodyRaisesThis(AnabranchError):
        message = "no test speaks of this {what} at all"

    with pytest.raises(AssertionError):
        test_each_error_is_raised_in_a_test(NobodyRaisesThis)


def test_the_package_names_what_it_offers():
    assert {name for name in anabranch.__all__ if getattr(anabranch, name, None) is None} == set()
