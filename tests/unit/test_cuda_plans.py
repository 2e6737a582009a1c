"""Plans for a GPU, made on a machine without one: from fake tensors on ``cuda:0`` to the text."""

import re

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from anabranch.dialect.explicit import make_explicit
from anabranch.dialect.flatten import flatten
from anabranch.dialect.import_fx import import_graph
from anabranch.dialect.torch_ops import FORK, JOIN, tensor_results
from anabranch.lowering.pipeline import compile_module


def compile_for_cuda(program, *shapes: tuple[int, ...], device: str = "cuda:0", dtype=torch.bfloat16) -> tuple[str, dict]:
    """The plan and facts of ``program`` on fake tensors of ``shapes``."""
    with FakeTensorMode():
        gm = make_fx(program)(*(torch.empty(shape, device=device, dtype=dtype) for shape in shapes))
        make_explicit(gm)
        flatten(gm)
        return compile_module(import_graph(gm, {0: "current", 1: "pool"}))


def test_an_op_may_leave_results_undefined():
    """Flash attention returns nine values: seven are tensors by its schema, of which a GPU leaves some undefined."""

    def program(q, k, v):
        (side,) = FORK([q], 0, 1)
        attention = torch.ops.aten._scaled_dot_product_flash_attention.default(side, k, v, 0.0, True)[0]
        (joined,) = JOIN([attention], 1, 0)
        return joined + q

    plan, facts = compile_for_cuda(program, *[(1, 4, 128, 64)] * 3)
    (call,) = [line for line in plan.splitlines() if "flash_attention" in line and "call_new" in line]
    names, places = call.split(" = rt.call_new(s1, ")
    assert (
        len(names.split(",")) == 7 and places.split("],")[0].count("torch.") >= 7 and "torch.bfloat16, 'cuda:0')" in places
    )
    assert [launch[0] for launch in facts["launches"]] == [1, 0]
    op = torch.ops.aten._scaled_dot_product_flash_attention.default
    made = (1, 2, None, None, 128, 128, 3, 4, None)
    assert tensor_results(op, made) == [1, 2, None, None, 3, 4, None]


def test_work_on_the_cpu_beside_a_gpus_is_pytorchs():
    def program(x):
        words = torch.ops.aten.relu.default(x)
        return torch.ops.aten._to_copy.default(words, device=torch.device("cuda:0"), non_blocking=True) + 1

    plan, facts = compile_for_cuda(program, (4, 4), device="cpu", dtype=torch.float32)
    assert [name for _, name, _ in facts["launches"]] == ["aten.relu", "aten.copy_", "kernel_0"]
    assert re.search(r"rt\.call\(s0, aten\.copy_\.default, b\d, b\d, True\)", plan)
    assert set(facts["arena_bytes"]) == {"cuda:0"}
