"""The import into MLIR: what it says of a graph, and what it refuses."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule

import anabranch
from anabranch.dialect.errors import UnsupportedOp
from anabranch.dialect.explicit import make_explicit
from anabranch.dialect.flatten import flatten
from anabranch.dialect.import_fx import import_graph
from tests.unit.functional_graph import functional


def test_the_import_says_streams_and_layouts():
    def program(x):
        with anabranch.stream(1):
            h = x.t().sin()
        return h, None, 2

    gm = make_explicit(functional(program, torch.ones(2, 3)))
    signature = flatten(gm)
    module = import_graph(gm, {0: "current", 1: "pool"})
    text = str(module)
    assert 'anabranch.streams = {"0" = "current", "1" = "pool"}' in text
    assert 'anabranch.layout = "float32[2, 3] strides [3, 1] on cpu"' in text
    assert 'torch.operator "torch.anabranch.fork_stream"' in text
    assert signature.results_of(["h"])[0] == "h"


def test_a_constant_that_is_no_tensor_is_refused():
    graph = Graph()
    graph.output((graph.get_attr("threshold"),))
    gm = GraphModule({"threshold": 3}, graph)
    with pytest.raises(UnsupportedOp, match="'threshold' cannot be compiled: it is a constant int"):
        flatten(gm)


def test_each_op_has_the_users_line_a_fork_too():
    def program(x):
        return anabranch.join_stream(anabranch.fork_stream(x))

    gm = make_explicit(functional(program, torch.ones(4)))
    flatten(gm)
    module = import_graph(gm, {0: "current", 1: "pool"})
    line = program.__code__.co_firstlineno + 1
    calls = [op.operation for op in module.body.operations[0].regions[0].blocks[0] if op.operation.name == "torch.operator"]
    assert [str(call.location) for call in calls] == [f'loc("{__file__}":{line}:0)'] * 2


def refusal(op, args: tuple, value: torch.Tensor) -> str:
    graph = Graph()
    x = graph.placeholder("x")
    fakes = FakeTensorMode()
    x.meta["val"] = fakes.from_tensor(torch.ones(2))
    y = graph.call_function(op, (x, *args))
    y.meta = {"val": fakes.from_tensor(value), "stack_trace": 'File "model.py", line 3, in f\n    y = op(x)'}
    graph.output((y,))
    with pytest.raises(UnsupportedOp) as refused:
        import_graph(GraphModule({}, graph), {0: "current"})
    return str(refused.value)


def test_a_dtype_that_mlir_lacks_is_refused():
    text = refusal(torch.ops.aten.to.dtype, (torch.bits8,), torch.empty(2, dtype=torch.bits8))
    assert text.startswith("'to_dtype' (aten.to.dtype) cannot be compiled: it is a tensor of torch.bits8, which MLIR's")
    assert text.endswith("at model.py:3: y = op(x)")


def test_an_op_that_cannot_be_imported_is_named():
    text = refusal(torch.ops.aten.mul.Scalar, (1j,), torch.ones(2, dtype=torch.complex64))
    assert text.startswith("'mul_scalar' (aten.mul.Scalar) cannot be compiled: torch-mlir cannot import it:")
    assert text.endswith("at model.py:3: y = op(x)")
