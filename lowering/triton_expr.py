"""Triton text for each scalar op of arith and math.

A template is a list of lines over the operands ``{0}``, ``{1}``, ...; the last line is the result and each earlier one
is assigned to ``{t0}``, ``{t1}``, ... in turn. ``{T}`` is the result's type in registers, ``{U}`` the unsigned type as
wide as the operands. Only functions that Triton's interpreter has too are used: it knows nothing of libdevice.
"""

import math

import torch
from torch_mlir import ir

from anabranch.lowering.loop_classes import Unsupported

# Element type -> its type in registers. 16-bit floats are computed in 32 bits, and rounded where they are stored only.
REGISTER_TYPES = {
    "f16": "tl.float32",
    "bf16": "tl.float32",
    "f32": "tl.float32",
    "f64": "tl.float64",
    "i1": "tl.int1",
    "i8": "tl.int8",
    "i16": "tl.int16",
    "i32": "tl.int32",
    "i64": "tl.int64",
    "index": "tl.int64",
}

# What a load and a store do beside moving, where the type in memory is not the type in registers.
AFTER_LOAD = {
    torch.float16: ".to(tl.float32)",
    torch.bfloat16: ".to(tl.float32)",
    torch.uint8: ".to(tl.int8, bitcast=True)",
}
BEFORE_STORE = {
    torch.float16: ".to(tl.float16)",
    torch.bfloat16: ".to(tl.bfloat16)",
    torch.uint8: ".to(tl.uint8, bitcast=True)",
}

MAX_INTEGER_POWER = 16

# What makes Triton's maximum and minimum return nan where one operand is nan.
NAN_SAFE = "propagate_nan=tl.PropagateNan.ALL"

TEMPLATES: dict[str, list[str]] = {
    "arith.addf": ["{0} + {1}"],
    "arith.subf": ["{0} - {1}"],
    "arith.mulf": ["{0} * {1}"],
    "arith.divf": ["{0} / {1}"],
    "arith.remf": ["{0} % {1}"],
    "arith.negf": ["-{0}"],
    "arith.maximumf": ["tl.maximum({0}, {1}, " + NAN_SAFE + ")"],
    "arith.minimumf": ["tl.minimum({0}, {1}, " + NAN_SAFE + ")"],
    "arith.maxnumf": ["tl.maximum({0}, {1})"],
    "arith.minnumf": ["tl.minimum({0}, {1})"],
    "arith.addi": ["{0} + {1}"],
    "arith.subi": ["{0} - {1}"],
    "arith.muli": ["{0} * {1}"],
    "arith.divsi": ["{0} // {1}"],
    "arith.remsi": ["{0} % {1}"],
    # Triton's // and % round toward zero, as divsi and remsi do.
    "arith.floordivsi": ["{0} // {1}", "{t0} - (({0} % {1} != 0) & (({0} < 0) != ({1} < 0))).to({T})"],
    "arith.andi": ["{0} & {1}"],
    "arith.ori": ["{0} | {1}"],
    "arith.xori": ["{0} ^ {1}"],
    "arith.shli": ["{0} << {1}"],
    "arith.shrsi": ["{0} >> {1}"],
    "arith.maxsi": ["tl.maximum({0}, {1})"],
    "arith.minsi": ["tl.minimum({0}, {1})"],
    "arith.select": ["tl.where({0}, {1}, {2})"],
    "math.exp": ["tl.exp({0})"],
    "math.exp2": ["tl.exp2({0})"],
    "math.log": ["tl.log({0})"],
    "math.log2": ["tl.log2({0})"],
    "math.log10": ["tl.log({0}) * 0.43429448190325176"],
    "math.sqrt": ["tl.sqrt({0})"],
    "math.rsqrt": ["tl.rsqrt({0})"],
    "math.erf": ["tl.erf({0})"],
    "math.sin": ["tl.sin({0})"],
    "math.cos": ["tl.cos({0})"],
    "math.tan": ["tl.sin({0}) / tl.cos({0})"],
    "math.absf": ["tl.abs({0})"],
    "math.absi": ["tl.abs({0})"],
    "math.floor": ["tl.floor({0})"],
    "math.ceil": ["tl.ceil({0})"],
    "math.trunc": ["tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))"],
    # Halves go to the even neighbour.
    "math.roundeven": [
        "tl.floor({0})",
        "{0} - {t0}",
        "({t1} > 0.5) | (({t1} == 0.5) & (tl.floor({t0} * 0.5) * 2.0 != {t0}))",
        "tl.where({t2}, {t0} + 1.0, {t0})",
    ],
    "math.fma": ["{0} * {1} + {2}"],
    # Both by Kahan's method: the rounding error of the inner 1 + x (or exp x) is divided out again.
    "math.log1p": [
        "1.0 + {0}",
        "tl.log({t0}) * ({0} / ({t0} - 1.0))",
        'tl.where(({t0} == 1.0) | ({t0} == float("inf")), {0}, {t1})',
    ],
    "math.expm1": [
        "tl.exp({0})",
        "({t0} - 1.0) * ({0} / tl.log({t0}))",
        'tl.where({t0} == float("inf"), {t0}, {t1})',
        "tl.where({t0} == 0.0, -1.0, tl.where({t0} == 1.0, {0}, {t2}))",
    ],
    # exp(-2|x|) cannot overflow; near 0, where 1 - exp(-2|x|) cancels, the Taylor series to x**9 is exact to 1e-8.
    "math.tanh": [
        "tl.exp(-2.0 * tl.abs({0}))",
        "(1.0 - {t0}) / (1.0 + {t0})",
        "{0} * {0}",
        "-0.333333333333 + {t2} * (0.133333333333 + {t2} * (-0.0539682539683 + {t2} * 0.0218694885362))",
        "tl.where(tl.abs({0}) < 0.25, {0} + {0} * {t2} * {t3}, tl.where({0} < 0, -{t1}, {t1}))",
    ],
}
# The series above is too short for 64 bits: tanh x = -e / (2 + e), where e = expm1(-2|x|) by Kahan's method.
_TANH_F64 = [
    "-2.0 * tl.abs({0})",
    "tl.exp({t0})",
    "tl.where({t1} == 1.0, {t0}, ({t1} - 1.0) * ({t0} / tl.log({t1})))",
    "tl.where({t1} == 0.0, -1.0, {t2})",
    "-{t3} / (2.0 + {t3})",
    "tl.where({0} < 0, -{t4}, {t4})",
]
# |x|**y through exp2; the sign is that of x where y is odd, and nan where y is no integer.
_POW = [
    "tl.exp2({1} * tl.log2(tl.abs({0})))",
    "tl.floor({1} * 0.5) * 2.0 != {1}",
    'tl.where(tl.floor({1}) == {1}, tl.where({t1}, -{t0}, {t0}), float("nan"))',
    "tl.where({0} < 0, {t2}, {t0})",
    "tl.where(({1} == 0.0) | ({0} == 1.0), 1.0, {t3})",
]
_POW_CONSTANT = {
    0.5: ["tl.sqrt({0})"],
    -0.5: ["tl.rsqrt({0})"],
}

# In the order of arith's predicate numbers. Triton's <, <=, ==, >, >= are false on nan, != is true.
_CMPF = [
    "oeq", "{0} == {1}",
    "ogt", "{0} > {1}",
    "oge", "{0} >= {1}",
    "olt", "{0} < {1}",
    "ole", "{0} <= {1}",
    "one", "({0} < {1}) | ({0} > {1})",
    "ord", "({0} == {0}) & ({1} == {1})",
    "ueq", "(({0} < {1}) | ({0} > {1})) == 0",
    "ugt", "({0} <= {1}) == 0",
    "uge", "({0} < {1}) == 0",
    "ult", "({0} >= {1}) == 0",
    "ule", "({0} > {1}) == 0",
    "une", "{0} != {1}",
    "uno", "({0} != {0}) | ({1} != {1})",
]  # fmt: skip
_CMPI = ["==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">="]
_FIRST_UNSIGNED = 6

_FLOAT_CASTS = ("arith.extf", "arith.truncf")
_CASTS = (*_FLOAT_CASTS, "arith.extsi", "arith.trunci", "arith.sitofp", "arith.fptosi", "arith.index_cast")
_UNSIGNED_CASTS = ("arith.extui", "arith.uitofp")
_UNSIGNED = {"arith.divui": "//", "arith.remui": "%", "arith.shrui": ">>"}
_ON_BOOLS = {"arith.addi": "^", "arith.subi": "^", "arith.muli": "&"}


def template(op: ir.Operation, exponent: float | None) -> list[str]:
    """The template of ``op``; ``exponent`` is the second operand of a power where that is a constant."""
    name = op.name
    type_ = str(op.operands[0].type)
    if name == "arith.cmpf":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if not 1 <= predicate <= 14:
            raise Unsupported("a comparison that is always true or always false")
        return [_CMPF[2 * predicate - 1]]
    if name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate >= _FIRST_UNSIGNED and type_ != "i1":
            return [f"{_unsigned(0)} {_CMPI[predicate]} {_unsigned(1)}"]
        return [f"{{0}} {_CMPI[predicate]} {{1}}"]
    if name == "math.powf":
        return _POW_CONSTANT.get(exponent, _POW)
    if name == "math.fpowi":
        return _integer_power(exponent)
    if name == "math.tanh" and type_ == "f64":
        return _TANH_F64
    if type_ == "i1" and name in _ON_BOOLS:
        return [f"{{0}} {_ON_BOOLS[name]} {{1}}"]
    if name == "arith.extsi" and type_ == "i1":
        return ["-({0}.to({T}))"]
    if name == "arith.trunci" and str(op.results[0].type) == "i1":
        return ["({0} & 1) != 0"]
    if name in _CASTS:
        return ["{0}.to({T})"]
    if name in _UNSIGNED_CASTS:
        # Triton reads a bool as 0 or 1.
        return ["{0}.to({T})" if type_ == "i1" else _unsigned(0) + ".to({T})"]
    if name in _UNSIGNED:
        return [f"({_unsigned(0)} {_UNSIGNED[name]} {_unsigned(1)}).to({{T}}, bitcast=True)"]
    return TEMPLATES[name] if name in TEMPLATES else _unsupported(name)


def _integer_power(exponent: int | None) -> list[str]:
    """x**exponent by squaring."""
    if exponent is None or not 1 <= abs(exponent) <= MAX_INTEGER_POWER:
        return _unsupported(f"math.fpowi by {exponent}")
    lines, square, rest, product = [], "{0}", abs(exponent), None
    while rest:
        if rest & 1 and product is None:
            product = square
        elif rest & 1:
            lines.append(f"{product} * {square}")
            product = f"{{t{len(lines) - 1}}}"
        rest >>= 1
        if rest:
            lines.append(f"{square} * {square}")
            square = f"{{t{len(lines) - 1}}}"
    if exponent < 0:
        lines.append(f"1.0 / {product}")
    return lines or ["{0}"]


def _unsupported(name: str):
    raise Unsupported(f"op {name}")


def _unsigned(operand: int) -> str:
    return f"{{{operand}}}.to({{U}}, bitcast=True)"


def register_type(type_: ir.Type) -> str:
    """The type in registers of an element type."""
    return REGISTER_TYPES.get(str(type_)) or _unsupported(f"on {type_}")


def unsigned_type(type_: str) -> str:
    return f"tl.uint{type_[1:]}" if type_[1:].isdigit() and type_ != "i1" else ""


def compares_narrow(op: ir.Operation) -> bool:
    """Whether ``op`` widens a float to 64 bits only to compare it with constants.

    PyTorch rounds the constant to the tensor's type and compares in that.
    """
    if op.name != "arith.extf" or str(op.results[0].type) != "f64":
        return False
    users = [use.owner.operation for use in op.results[0].uses]
    return all(user.name == "arith.cmpf" and any(is_constant(v) for v in user.operands) for user in users)


def is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"


_ROUNDED = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


def rounded(value: float, type_: str) -> float:
    """The nearest value of float type ``type_``."""
    return float(torch.tensor(value, dtype=_ROUNDED[type_])) if type_ in _ROUNDED else value


def keeps_register(op: ir.Operation) -> bool:
    """Whether ``op`` is a cast between types that are one type in registers, so that nothing is left to do."""
    source, result = str(op.operands[0].type), str(op.results[0].type)
    return op.name in _FLOAT_CASTS and REGISTER_TYPES.get(source) == REGISTER_TYPES.get(result)


_STEMS = {
    "arith.select": "where",
    "arith.maximumf": "max",
    "arith.maxnumf": "max",
    "arith.maxsi": "max",
    "arith.minimumf": "min",
    "arith.minnumf": "min",
    "arith.minsi": "min",
    "math.roundeven": "round",
}


def stem(op: ir.Operation) -> str:
    """The word that the results of ``op`` are named by: ``add`` for arith.addf and arith.addi."""
    if op.name in (*_CASTS, *_UNSIGNED_CASTS):
        return "cast"
    name = op.name.split(".")[1]
    return _STEMS.get(op.name) or (name[:-1] if name[-1] in "fi" and len(name) < 6 and name != "erf" else name)


def fold_cast(op: ir.Operation, value: bool | int | float) -> bool | int | float | None:
    """The value of a cast of a constant, or None where ``op`` is no cast. A constant never drags its 64 bits in."""
    if op.name in _FLOAT_CASTS:
        return rounded(value, "f32") if str(op.results[0].type) != "f64" else value
    if op.name in ("arith.sitofp", "arith.uitofp") and value >= 0:
        return float(value)
    if op.name in ("arith.extsi", "arith.index_cast") and not isinstance(value, bool):
        return value
    return None


def literal(value: bool | int | float) -> str:
    """A constant as Python text that stands as an operand."""
    if isinstance(value, float) and (math.isinf(value) or math.isnan(value)):
        return f'float("{value}")'
    return f"({value!r})" if not isinstance(value, bool) and value < 0 else repr(value)
