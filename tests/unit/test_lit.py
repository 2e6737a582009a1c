"""Runs each lit test as a test of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

LIT = Path(__file__).parent.parent / "lit"
FILES = sorted(LIT.rglob("*.mlir"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(LIT)))
def test_lit(file):
    result = subprocess.run(
        [sys.executable, "-c", "import lit.main; lit.main.main()", "-v", str(file)], capture_output=True, text=True
    )
    assert "Passed: 1 " in result.stdout, result.stdout + result.stderr
