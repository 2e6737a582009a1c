"""Triton text for row reductions: what each combining op of arith becomes over the R axis of a block."""

from dataclasses import dataclass

from anabranch.lowering.triton_expr import NAN_SAFE


@dataclass(frozen=True)
class Reduction:
    """How values of a row are combined, with the value ``neutral`` that changes nothing.

    ``stem`` names the result; ``function`` is Triton's reduction; ``combine`` merges two results; ``keeps_nan`` says
    whether a nan in the row must show (Triton's max and min skip it).
    """

    stem: str
    neutral: bool | int | float
    function: str
    combine: str
    keeps_nan: bool = False


# The functions that tl.sum, tl.max and tl.min reduce by.
_COMBINE = {"sum": "_sum_combine", "max": "_elementwise_max", "min": "_elementwise_min"}


def over_row(function: str, block: str, target: str) -> str:
    """The text that reduces axis 1 of ``block`` and keeps it, as extent 1."""
    if target == "cpu":
        # Triton's interpreter can call tl.sum only where it was switched on before triton was imported; this always.
        return f"tl.reduce({block}, 1, tl.standard.{_COMBINE[function]}, keep_dims=True)"
    return f"tl.{function}({block}, axis=1, keep_dims=True)"


_MAX, _MIN, _INF = "tl.maximum({0}, {1}", "tl.minimum({0}, {1}", float("inf")
_FLOAT = {
    "arith.addf": Reduction("sum", 0.0, "sum", "{0} + {1}"),
    "arith.maximumf": Reduction("max", -_INF, "max", f"{_MAX}, {NAN_SAFE})", keeps_nan=True),
    "arith.minimumf": Reduction("min", _INF, "min", f"{_MIN}, {NAN_SAFE})", keeps_nan=True),
    "arith.maxnumf": Reduction("max", -_INF, "max", f"{_MAX})"),
    "arith.minnumf": Reduction("min", _INF, "min", f"{_MIN})"),
}
_BOOL = {
    "arith.ori": Reduction("any", False, "max", "{0} | {1}"),
    "arith.andi": Reduction("all", True, "min", "{0} & {1}"),
}


def reduction(combiner: str, type_: str) -> Reduction | None:
    """The reduction by op ``combiner`` on elements of type ``type_``, or None where there is none."""
    if type_ == "i1":
        return _BOOL.get(combiner)
    if not type_.startswith("i"):
        return _FLOAT.get(combiner)
    largest = 2 ** (int(type_[1:]) - 1) - 1
    of_int = {
        "arith.addi": Reduction("sum", 0, "sum", "{0} + {1}"),
        "arith.maxsi": Reduction("max", -largest - 1, "max", f"{_MAX})"),
        "arith.minsi": Reduction("min", largest, "min", f"{_MIN})"),
    }
    return of_int.get(combiner)
