"""Turns the torch ops of each region into calls: of kernels, of PyTorch's own ops, and views that run nothing.

Before, inside a region:

    %0 = torch.aten.t %w;  %1 = torch.aten.mm %x, %0;  %2 = torch.aten.relu %1;  %3 = torch.aten.exp %2;  yield %3

After, with a private function @kernel_0 that holds relu and exp as torch ops:

    %0 = "anabranch.view"(%w) {callee = "aten.t.default", arguments = "%0", layouts = [...]}
    %1 = "anabranch.extern"(%x, %0) {callee = "aten.mm.default", arguments = "%0, %1", layouts = [...]}
    %2 = "anabranch.call_kernel"(%1) {callee = @kernel_0, layouts = [...]}
    yield %2

Requires region form, and ``anabranch.layout`` on each argument of each function. Guarantees that each value says where it
lies; that kernels with the same text are one function; that every kernel can be emitted: what ``lower-kernels`` or
``emit_triton`` cannot take is split, and at last left to PyTorch. Refuses an op that PyTorch does not know, and one that
writes its arguments.
"""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_mlir import ir

from anabranch.dialect.layout import LAYOUT_ATTR, Layout
from anabranch.dialect.membership import defining_op, has_stream, is_constant, is_list_of_tensors, is_unpacking
from anabranch.dialect.ops import functions
from anabranch.lowering.aten_call import AtenCall, UnknownArgument, UnknownOp, aten_call
from anabranch.lowering.clusters import Node, cluster
from anabranch.lowering.kernel_functions import Kernels
from anabranch.lowering.kernel_ops import is_fusible, row_of
from anabranch.lowering.lower_kernels import KERNEL_ATTR


def form_kernels(module: ir.Operation | ir.Module) -> None:
    """Rewrites the regions of each function of ``module``, in place."""
    module = module.operation
    with module.context, FakeTensorMode():
        kernels = Kernels(module)
        for function in functions(module):
            if KERNEL_ATTR not in function.operation.attributes:
                _form_function(function.operation, kernels)


def _form_function(function: ir.Operation, kernels: Kernels) -> None:
    block = function.regions[0].blocks[0]
    attributes = list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []
    device = _kernel_device(function, attributes)
    values: dict[ir.Value, torch.Tensor] = {}
    for i, argument in enumerate(block.arguments):
        if i >= len(attributes) or LAYOUT_ATTR not in attributes[i]:
            function.location.emit_error(
                f"argument {i} of '{function.name}' does not say where it lies: give it an attribute '{LAYOUT_ATTR}', "
                f'such as {{{LAYOUT_ATTR} = "{Layout((2, 3), (3, 1), torch.float32, "cuda:0")}"}}'
            )
            return
        values[argument] = _fake(Layout.parse(ir.StringAttr(attributes[i][LAYOUT_ATTR]).value))
    for op in block.operations:
        region = op.operation
        if region.name != "anabranch.region":
            continue
        inner = region.regions[0].blocks[0]
        results = _Former(inner, kernels, device, [values[x] for x in region.operands]).run()
        if results is None:
            return
        values.update(zip(region.results, results))


def _kernel_device(function: ir.Operation, attributes: list[ir.Attribute]) -> str:
    """The type of device that kernels are for: work on the CPU beside a GPU's is left to PyTorch."""
    found = any("on cuda" in str(named) for named in attributes)

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found |= op.name == "torch.constant.device" and op.attributes["value"].value.startswith("cuda")
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return "cuda" if found else "cpu"


def _fake(layout: Layout) -> torch.Tensor:
    return torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype, device=layout.device)


class _Former:
    """Forms the block of one region, whose arguments are like the fake tensors ``arguments``.

    An op may return a list, of which others take elements: so tensors are named by (number of the op, number of the result).
    """

    def __init__(self, block: ir.Block, kernels: Kernels, device: str, arguments: list[torch.Tensor]):
        self._kernels = kernels
        self._device = device
        self._fakes = dict(zip(block.arguments, arguments))
        self._end = list(block.operations)[-1].operation
        self._old = [op.operation for op in list(block.operations)[:-1]]
        self._ops: list[ir.Operation] = []
        self._calls: list[AtenCall] = []
        self._results: list[list[torch.Tensor]] = []
        self._source: dict[ir.Value, tuple[int, int]] = {}
        self._new: dict[tuple[int, int], ir.Value] = {}

    def run(self) -> list[torch.Tensor] | None:
        """Rewrites the block and returns what it yields; None, with an error emitted, where that cannot be."""
        for op in self._old:
            if is_unpacking(op.opview):
                self._enter_elements(op)
            elif not (is_constant(op.opview) or is_list_of_tensors(op.opview)) and not self._enter(op):
                return None
        for numbers in cluster([self._node(i) for i in range(len(self._ops))]):
            if self._is_fusible(numbers[0]):
                self._emit_kernel(numbers)
            else:
                self._emit_call(numbers[0])
        results = [self._fakes[x] for x in self._end.operands]
        for i, operand in enumerate(self._end.operands):
            self._end.operands[i] = self._now(operand)
        for op in reversed(self._old):
            op.erase()
        return results

    def _enter(self, op: ir.Operation) -> bool:
        """Reads one op and evaluates it on fake tensors."""
        try:
            call = aten_call(op)
        except (UnknownArgument, UnknownOp) as error:
            op.location.emit_error(str(error))
            return False
        if call.mutates:
            op.location.emit_error(f"'{op.name}' op writes its arguments: functionalize the program first")
            return False
        try:
            results = call.evaluate([self._fakes[x] for x in call.operands])
        except Exception as error:  # noqa: BLE001  (whatever the op raises: the call does not fit its operands)
            op.location.emit_error(f"'{op.name}' op does not run on its operands: {error}")
            return False
        number = len(self._ops)
        self._ops.append(op)
        self._calls.append(call)
        self._results.append(results)
        if not any(str(x.type).startswith("!torch.list") for x in op.results):
            tensors = [x for x, r in zip(op.results, call.op._schema.returns) if str(r.type) == "Tensor"]
            for i, (value, result) in enumerate(zip(tensors, results)):
                if has_stream(value):
                    self._source[value] = number, i
                    self._fakes[value] = result
        return True

    def _enter_elements(self, op: ir.Operation) -> None:
        number = self._ops.index(defining_op(op.operands[0]).operation)
        if op.name == "torch.prim.ListUnpack":
            taken = enumerate(op.results)
        else:
            index = defining_op(op.operands[1]).operation.attributes["value"].value
            taken = [(index % len(self._results[number]), op.results[0])]
        for i, value in taken:
            self._source[value] = number, i
            self._fakes[value] = self._results[number][i]

    def _is_fusible(self, i: int) -> bool:
        devices = {x.device for x in [*self._results[i], *(self._fakes[x] for x in self._calls[i].operands)]}
        return len(devices) == 1 and devices.pop().type == self._device and is_fusible(self._ops[i])

    def _node(self, i: int) -> Node:
        operands = self._calls[i].operands
        producers = tuple({self._source[x][0] for x in operands if x in self._source})
        if not self._is_fusible(i):
            return Node(producers)
        row, result = row_of(self._ops[i]), self._results[i][0]
        space = result if row is None else self._fakes[operands[0]]
        return Node(producers, tuple(space.shape), row, str(result.device))

    def _emit_kernel(self, numbers: list[int]) -> None:
        """One call of a kernel that runs the ops ``numbers``, or several where one kernel cannot."""
        ops = [self._ops[i] for i in numbers]
        own = {x for op in ops for x in op.results}
        inputs = list(dict.fromkeys(x for i in numbers for x in self._calls[i].operands if x not in own))
        outputs = [x for op in ops for x in op.results if any(use.owner.operation not in ops for use in x.uses)]
        if not outputs:
            return
        layouts = {x: Layout.of(self._fakes[x]) for x in [*inputs, *outputs]}
        name = self._kernels.add(ops, inputs, outputs, layouts)
        if name is None and len(numbers) == 1:
            self._emit_call(numbers[0])
        elif name is None:
            middle = len(numbers) // 2
            self._emit_kernel(numbers[:middle])
            self._emit_kernel(numbers[middle:])
        else:
            callee = ir.FlatSymbolRefAttr.get(name)
            call = self._create(
                "call_kernel", ops[0], inputs, [x.type for x in outputs], [layouts[x] for x in outputs], {"callee": callee}
            )
            self._new.update((self._source[x], y) for x, y in zip(outputs, call.results))

    def _emit_call(self, i: int) -> None:
        """A call of PyTorch's own op, or a view."""
        op, call, results = self._ops[i], self._calls[i], self._results[i]
        types = {j: x.type for x, (number, j) in self._source.items() if number == i}
        anything = ir.Type.parse("!torch.vtensor")
        new = self._create(
            "view" if call.is_view else "extern",
            op,
            call.operands,
            [types.get(j, anything) for j in range(len(results))],
            [Layout.of(x) for x in results],
            {"callee": ir.StringAttr.get(call.callee), "arguments": ir.StringAttr.get(call.arguments)},
        )
        self._new.update(((i, j), x) for j, x in enumerate(new.results))

    def _create(self, name: str, at: ir.Operation, operands, types, layouts: list[Layout], attributes: dict) -> ir.Operation:
        texts = [ir.StringAttr.get(str(layout)) for layout in layouts]
        return ir.Operation.create(
            f"anabranch.{name}",
            results=types,
            operands=[self._now(x) for x in operands],
            attributes=attributes | {"layouts": ir.ArrayAttr.get(texts)},
            loc=at.location,
            ip=ir.InsertionPoint(self._end),
        )

    def _now(self, old: ir.Value) -> ir.Value:
        """What ``old`` is in the new block; the arguments stay."""
        return self._new[self._source[old]] if old in self._source else old
