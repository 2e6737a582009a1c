"""The kernel functions of a module: made from torch ops, merged where equal, kept only where a kernel can be emitted."""

from torch_mlir import ir

from anabranch.dialect.layout import LAYOUT_ATTR, Layout
from anabranch.dialect.membership import defining_op
from anabranch.lowering.diagnostics import collect
from anabranch.lowering.emit_triton import Unsupported, emit_kernel
from anabranch.lowering.lower_kernels import KERNEL_ATTR, OPS_ATTR, lower_function


class Kernels:
    """Makes the kernel functions of one module, in front of its other functions."""

    def __init__(self, module: ir.Operation):
        self._block = module.regions[0].blocks[0]
        first = list(self._block.operations)
        self._ip = ir.InsertionPoint(first[0]) if first else ir.InsertionPoint(self._block)
        self._taken = {op.operation.attributes["sym_name"].value for op in first if "sym_name" in op.operation.attributes}
        # The name of each kernel function by its text; None for those that cannot be emitted.
        self._names: dict[str, str | None] = {}
        self._count = 0

    def add(
        self,
        ops: list[ir.Operation],
        inputs: list[ir.Value],
        outputs: list[ir.Value],
        layouts: dict[ir.Value, Layout],
    ) -> str | None:
        """The name of a kernel function that runs ``ops`` from ``inputs`` to ``outputs``; None where there can be none."""
        scratch = ir.Module.create(ops[0].location)
        function = _outline(scratch, ops, inputs, outputs, layouts)
        text = str(function)
        if text not in self._names:
            target = "cuda" if layouts[outputs[0]].device.startswith("cuda") else "cpu"
            self._names[text] = self._keep(function) if _can_be_emitted(function, target) else None
        return self._names[text]

    def _keep(self, function: ir.Operation) -> str:
        while (name := f"kernel_{self._count}") in self._taken:
            self._count += 1
        self._taken.add(name)
        function.clone(ip=self._ip).operation.attributes["sym_name"] = ir.StringAttr.get(name)
        return name


def _outline(
    module: ir.Module,
    ops: list[ir.Operation],
    inputs: list[ir.Value],
    outputs: list[ir.Value],
    layouts: dict[ir.Value, Layout],
) -> ir.Operation:
    """A private function in ``module`` that holds copies of ``ops`` and of the constants they use."""
    named = lambda values: ir.ArrayAttr.get(  # noqa: E731
        [ir.DictAttr.get({LAYOUT_ATTR: ir.StringAttr.get(str(layouts[x]))}) for x in values]
    )
    location = ops[0].location
    function = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get("kernel"),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([x.type for x in inputs], [x.type for x in outputs])),
            "arg_attrs": named(inputs),
            "res_attrs": named(outputs),
            KERNEL_ATTR: ir.UnitAttr.get(),
            OPS_ATTR: ir.ArrayAttr.get([ir.StringAttr.get(op.name.removeprefix("torch.")) for op in ops]),
        },
        regions=1,
        loc=location,
        ip=ir.InsertionPoint(module.body),
    )
    block = ir.Block.create_at_start(function.regions[0], [x.type for x in inputs], [location] * len(inputs))
    values = dict(zip(inputs, block.arguments))

    def copy(op: ir.Operation) -> None:
        for operand in op.operands:
            if operand not in values:
                copy(defining_op(operand).operation)
        new = op.clone(ir.InsertionPoint(block)).operation
        for i, operand in enumerate(op.operands):
            new.operands[i] = values[operand]
        values.update(zip(op.results, new.results))

    for op in ops:
        copy(op)
    ir.Operation.create("func.return", operands=[values[x] for x in outputs], loc=location, ip=ir.InsertionPoint(block))
    return function


def _can_be_emitted(function: ir.Operation, target: str) -> bool:
    alone = ir.Module.create(function.location)
    copy = function.clone(ip=ir.InsertionPoint(alone.body))
    # What torch-mlir says of an op that it cannot lower is of no use to the user: PyTorch runs it instead.
    with collect(function.context):
        try:
            emit_kernel(lower_function(copy), target)
        except (Unsupported, ir.MLIRError):
            return False
    return True
