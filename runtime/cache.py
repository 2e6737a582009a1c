"""Plans on disk, found by what they were compiled from."""

import hashlib
import os
import platform
import tempfile
import warnings
from pathlib import Path

import torch
import triton

_HEADER = "# sha256 of what follows: "


class CorruptCacheWarning(UserWarning):
    """A file of the cache is not what was written there; the program is compiled again."""


def cache_dir() -> Path:
    """``$ANABRANCH_CACHE_DIR``, or ``anabranch`` in the user's cache folder."""
    if "ANABRANCH_CACHE_DIR" in os.environ:
        return Path(os.environ["ANABRANCH_CACHE_DIR"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anabranch"


class PlanCache:
    """Plans in ``folder``, as the Python files that run. Safe for processes that use it at once."""

    def __init__(self, folder: Path):
        self.folder = folder

    @staticmethod
    def key(*parts: str) -> str:
        """The key of a plan compiled from ``parts`` by this compiler with these versions."""
        versions = (_sources(), torch.__version__, triton.__version__, platform.python_version())
        digest = hashlib.sha256()
        for part in (*versions, *parts):
            digest.update(f"{len(part)}:{part}".encode())
        return digest.hexdigest()[:32]

    def get(self, key: str) -> Path | None:
        """The plan's file, or None. A corrupt one is removed, with a ``CorruptCacheWarning``."""
        path = self._path(key)
        try:
            header, _, text = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if header.decode(errors="replace") == _HEADER + hashlib.sha256(text).hexdigest():
            return path
        warnings.warn(
            f"the cached plan {path} is corrupt (its text does not match its checksum): it is removed and the program is "
            "compiled again",
            CorruptCacheWarning,
            stacklevel=2,
        )
        path.unlink(missing_ok=True)
        return None

    def put(self, key: str, text: str) -> Path:
        """Stores a plan and returns its file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        # Others see the old file or the new one, never a part.
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".tmp", delete=False) as file:
            file.write(f"{_HEADER}{hashlib.sha256(data).hexdigest()}\n".encode() + data)
        path = self._path(key)
        os.replace(file.name, path)
        return path

    def _path(self, key: str) -> Path:
        return self.folder / f"plan_{key}.py"


def _sources() -> str:
    """A digest of this project's own code: a changed compiler finds none of its old plans."""
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for folder in ("dialect", "lowering", "runtime"):
        for path in sorted((package / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
