"""How an op of the dialect is defined: a Python class with a field for each operand, result, attribute and body.

MLIR's own way to define ops in Python, IRDL, gives all operands of a variadic group one type: a region that takes a matrix
and a vector could not be written. So the dialect is not registered with MLIR. Its contexts allow unregistered ops, these
classes give the ops their builders and accessors, and ``verify`` does what MLIR's verifier does for registered ones.

    class LaunchOp(Op, name="launch"):
        inputs: Operands
        stream: ir.IntegerAttr

    LaunchOp([x, y], stream)            # fields in order; results are given by their types, ``loc`` and ``ip`` by name
    op.inputs, op.stream.value
"""

import difflib
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects._ods_common import _cext

_SEGMENTS = "operandSegmentSizes"


class Operand:
    """A field that is one operand."""


class Operands:
    """A field that is any number of operands, of any types."""


class Result:
    """A field that is one result."""


class Results:
    """A field that is any number of results, of any types; one such field an op, and the last result field."""


class Body:
    """A field that is a region of one block."""


class Op(ir.OpView):
    """Base of the dialect's ops; a subclass is defined by its annotations and may check more in ``check``."""

    DIALECT: ClassVar[str] = "anabranch"
    CLASSES: ClassVar[dict[str, type["Op"]]] = {}
    _ODS_REGIONS: ClassVar = (0, True)

    def __init_subclass__(cls, name: str):
        fields = {key: kind for key, kind in cls.__annotations__.items()}
        cls.OPERATION_NAME = f"{cls.DIALECT}.{name}"
        cls._operands = {key: kind for key, kind in fields.items() if kind in (Operand, Operands)}
        cls._results = {key: kind for key, kind in fields.items() if kind in (Result, Results)}
        cls._bodies = [key for key, kind in fields.items() if kind is Body]
        cls._attributes = {key: kind for key, kind in fields.items() if issubclass(kind, ir.Attribute)}
        cls._parameters = [key for key, kind in fields.items() if kind is not Body]
        cls._has_segments = sum(kind is Operands for kind in cls._operands.values()) > 1
        for key in cls._operands:
            setattr(cls, key, property(lambda self, key=key: self._operand_field(key)))
        for i, (key, kind) in enumerate(cls._results.items()):
            several = kind is Results
            setattr(
                cls, key, property(lambda self, i=i, several=several: list(self.results)[i:] if several else self.results[i])
            )
        for key in cls._attributes:
            setattr(cls, key, property(lambda self, key=key: self.attributes[key]))
        for i, key in enumerate(cls._bodies):
            setattr(cls, key, property(lambda self, i=i: self.regions[i]))
        cls.CLASSES[cls.OPERATION_NAME] = cls
        _cext.register_operation(Op, replace=True)(cls)

    def __init__(self, *args, loc: ir.Location | None = None, ip: ir.InsertionPoint | None = None, **kwargs):
        given = dict(zip(self._parameters, args, strict=False)) | kwargs
        if len(args) > len(self._parameters) or set(given) != set(self._parameters):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._parameters)}")
        operands = [list(given[key]) if kind is Operands else [given[key]] for key, kind in self._operands.items()]
        results = [list(given[key]) if kind is Results else [given[key]] for key, kind in self._results.items()]
        attributes = {key: given[key] for key in self._attributes}
        if self._has_segments:
            attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get([len(group) for group in operands])
        operation = ir.Operation.create(
            self.OPERATION_NAME,
            results=sum(results, []),
            operands=sum(operands, []),
            attributes=attributes,
            regions=len(self._bodies),
            loc=loc,
            ip=ip,
        )
        super().__init__(operation)

    @classmethod
    def _segment_sizes(cls, operation: ir.Operation) -> list[int] | None:
        """How many operands each operand field has; None where ``operation`` has too few or does not say."""
        if cls._has_segments:
            given = operation.attributes.get(_SEGMENTS)
            sizes = list(given) if isinstance(given, ir.DenseI32ArrayAttr) else []
            return sizes if len(sizes) == len(cls._operands) and sum(sizes) == len(operation.operands) else None
        singles = sum(kind is Operand for kind in cls._operands.values())
        rest = len(operation.operands) - singles
        if rest < 0 or (rest and singles == len(cls._operands)):
            return None
        return [1 if kind is Operand else rest for kind in cls._operands.values()]

    def _operand_field(self, key: str):
        sizes = self._segment_sizes(self.operation)
        i = list(self._operands).index(key)
        start = sum(sizes[:i])
        values = list(self.operation.operands)[start : start + sizes[i]]
        return values if self._operands[key] is Operands else values[0]

    def fail(self, text: str) -> bool:
        """Emits an error at this op and returns False."""
        self.operation.location.emit_error(f"'{self.OPERATION_NAME}' op {text}")
        return False

    def check(self) -> bool:
        """Checks what the fields do not say; emits an error and returns False on the first thing wrong."""
        return True

    def check_fields(self) -> bool:
        """Checks that each field is there."""
        operation = self.operation
        for key, kind in self._attributes.items():
            if key not in operation.attributes:
                return self.fail(f"needs an attribute '{key}'")
            if not isinstance(operation.attributes[key], kind):
                return self.fail(f"has '{key}' = {operation.attributes[key]}, which is no {kind.__name__}")
        if self._segment_sizes(operation) is None:
            sizes = f", counted by '{_SEGMENTS}'" if self._has_segments else ""
            return self.fail(
                f"takes {', '.join(self._operands) or 'nothing'}{sizes}, but has {len(operation.operands)} operands"
            )
        single = sum(kind is Result for kind in self._results.values())
        count = len(operation.results)
        if count < single or (count > single and single == len(self._results)):
            return self.fail(f"gives {', '.join(self._results) or 'nothing'}, but has {count} results")
        if [len(region.blocks) for region in operation.regions] != [1] * len(self._bodies):
            return self.fail(f"has {', '.join(self._bodies) or 'no body'}, of one block each")
        return True


def verify(module: ir.Operation | ir.Module) -> bool:
    """Whether every op in ``module`` is known and as its class says; emits an error at each op that is not.

    MLIR's own ops are checked by ``module.operation.verify()``.
    """
    valid = True

    def visit(operation: ir.Operation) -> ir.WalkResult:
        nonlocal valid
        valid &= _verify_op(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return valid


def _verify_op(operation: ir.Operation) -> bool:
    definition = Op.CLASSES.get(operation.name)
    if definition is not None:
        op = operation.opview
        return op.check_fields() and op.check()
    if operation.context.is_registered_operation(operation.name):
        return True
    near = difflib.get_close_matches(operation.name, Op.CLASSES, n=1)
    hint = f": did you mean '{near[0]}'?" if near else ""
    operation.location.emit_error(f"unknown op '{operation.name}'{hint}")
    return False
