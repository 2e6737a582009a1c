"""lit's configuration: each .mlir file below is a shell test that runs with the Python that runs lit."""

import sys
from pathlib import Path

import lit.formats

config.name = "anabranch"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(Path(__file__).parent / "Output")
config.environment["PYTHONPATH"] = ":".join(path for path in sys.path if path)
config.substitutions += [
    (r"\banabranch-opt\b", f"{sys.executable} -m anabranch.lowering.opt"),
    (r"\bfilecheck\b", f"{sys.executable} -m filecheck"),
]
