"""Plans on disk, found by what they were compiled from."""

import functools
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


class UnusableCacheWarning(UserWarning):
    """The cache's folder cannot be written; plans are kept for this process only."""


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
        except OSError:
            # What cannot be read is written anew; ``put`` says if that cannot be done either.
            return None
        if header.decode(errors="replace") == _HEADER + hashlib.sha256(text).hexdigest():
            return path
        # Removed first, as a warning may be an error.
        path.unlink(missing_ok=True)
        warnings.warn(
            f"the cached plan {path} is corrupt (its text does not match its checksum): it is removed and the program is "
            "compiled again",
            CorruptCacheWarning,
            stacklevel=2,
        )
        return None

    def put(self, key: str, text: str) -> Path:
        """Stores a plan and returns its file.

        Where the folder cannot be written, that is a file which goes when the process ends, with an
        ``UnusableCacheWarning``.
        """
        try:
            return self._write(key, text)
        except OSError as error:
            warnings.warn(
                f"plans cannot be cached in {self.folder} ({error.strerror or error}): the program is compiled again in "
                "each process; set ANABRANCH_CACHE_DIR to a folder that can be written",
                UnusableCacheWarning,
                stacklevel=2,
            )
        return PlanCache(process_folder())._write(key, text)

    def _write(self, key: str, text: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path = self._path(key)
        file = tempfile.NamedTemporaryFile(dir=self.folder, suffix=".tmp", delete=False)
        try:
            with file:
                file.write(f"{_HEADER}{hashlib.sha256(data).hexdigest()}\n".encode() + data)
            # Others see the old file or the new one, never a part.
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
        return path

    def _path(self, key: str) -> Path:
        return self.folder / f"plan_{key}.py"


def process_folder() -> Path:
    """A folder that lives as long as the process."""
    return Path(_temporary_directory().name)


@functools.cache
def _temporary_directory() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="anabranch-")


def _sources() -> str:
    """A digest of this project's own code: a changed compiler finds none of its old plans."""
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for folder in ("dialect", "lowering", "runtime"):
        for path in sorted((package / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
