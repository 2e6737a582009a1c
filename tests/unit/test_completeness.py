"""Nothing is without its test: each pass has its lit files, each op a lit case, each error a test that raises it."""

import importlib
import pkgutil
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


def lit_file(name: str, invalid: bool = False) -> Path:
    folder = PASSES[name].split(".")[1]
    return LIT / folder / f"{name}{'-invalid' if invalid else ''}.mlir"


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_has_its_lit_files_and_its_sentence(name):
    text = lit_file(name).read_text()
    assert name in text.split("\n")[0] and "// CHECK" in text and "// Tests that" in text
    assert summary(name).endswith(".") and len(summary(name)) < 130
    module = importlib.import_module(PASSES[name])
    if "Refuses nothing" not in module.__doc__:
        refused = lit_file(name, invalid=True).read_text()
        assert name in refused.split("\n")[0] and "expected-error" in refused


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
