"""The options of ``torch.compile(..., backend="anabranch", options={...})``."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from anabranch.dialect.errors import AnabranchError


class UnknownOption(AnabranchError):
    """An option that the backend does not have."""

    message = "backend 'anabranch' has no option {name!r}{hint}; its options are {known}"


class WrongOption(AnabranchError):
    """An option with a value of another type."""

    message = "option {name!r} of backend 'anabranch' is {value!r}: write {wanted}"


@dataclass(frozen=True)
class Options:
    """``dump_dir``: a folder to write each stage to. ``seed``: the order of simulated streams. ``cache``: whether plans are
    kept on disk and looked up there."""

    dump_dir: str | None = None
    seed: int = 0
    cache: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> "Options":
        """The options in ``given``. Raises ``UnknownOption`` and ``WrongOption``."""
        known = [f.name for f in fields(cls)]
        values = dict(given or {})
        for name, value in values.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise UnknownOption(name=name, hint=f": did you mean {near[0]!r}?" if near else "", known=", ".join(known))
            if name == "seed" and (isinstance(value, bool) or not isinstance(value, int)):
                raise WrongOption(name=name, value=value, wanted="an int")
            if name == "cache" and not isinstance(value, bool):
                raise WrongOption(name=name, value=value, wanted="True or False")
        if values.get("dump_dir") is not None:
            values["dump_dir"] = str(values["dump_dir"])
        return cls(**values)
