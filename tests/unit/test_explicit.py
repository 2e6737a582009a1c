"""How streams come back into the functional graph as forks and joins."""

import operator

import pytest
import torch
from torch.fx import GraphModule

import anabranch
from anabranch.dialect.errors import StreamMix
from anabranch.dialect.explicit import make_explicit
from anabranch.dialect.stream_context import STREAM_KEY
from anabranch.dialect.torch_ops import FORK, JOIN
from tests.programs.harness import run
from tests.unit.functional_graph import functional

X = torch.ones(4)


def boundaries(gm: GraphModule) -> list[tuple]:
    return [
        (n.target, n.args[1], n.args[2], [x.name for x in n.args[0]]) for n in gm.graph.nodes if n.target in (FORK, JOIN)
    ]


def test_contexts_become_forks_and_joins():
    def program(x, w):
        with anabranch.stream(1):
            h = x @ w
            with anabranch.stream(2):
                g = h.sin()
            k = g + h
        return k + x

    gm = make_explicit(functional(program, torch.ones(2, 2), torch.ones(2, 2)))
    assert boundaries(gm) == [
        (FORK, 0, 1, ["arg0_1"]),
        (FORK, 0, 1, ["arg1_1"]),
        (FORK, 1, 2, ["mm"]),
        (FORK, 2, 1, ["sin"]),
        (JOIN, 1, 0, ["add"]),
    ]


def test_a_value_crosses_once_for_all_its_users():
    def program(x):
        with anabranch.stream(1):
            return x.sin() + x.cos() + x

    assert boundaries(make_explicit(functional(program, X)))[0] == (FORK, 0, 1, ["arg0_1"])
    assert len(boundaries(make_explicit(functional(program, X)))) == 2


def test_ops_of_a_composite_op_all_get_the_contexts_stream():
    def program(x):
        with anabranch.stream(1):
            h = torch.nn.functional.layer_norm(x, (4,)) + torch.nn.functional.mse_loss(x, x * 2)
        return h

    gm = functional(program, X)
    calls = [n for n in gm.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    assert {n.meta["custom"][STREAM_KEY] for n in calls} == {1}


def test_a_value_that_a_user_forked_is_brought_to_a_context():
    def program(x):
        forked = anabranch.fork_stream(x, target=1).sin()
        with anabranch.stream(2):
            h = forked.cos()
        return h

    assert [b[:3] for b in boundaries(make_explicit(functional(program, X)))] == [(FORK, 0, 1), (FORK, 1, 2), (JOIN, 2, 0)]


def test_what_leaves_the_graph_is_joined_whichever_way_it_was_forked():
    forked = make_explicit(functional(lambda x: (anabranch.fork_stream(x).sin(), x), X))
    assert [b[:3] for b in boundaries(forked)] == [(FORK, 0, 1), (JOIN, 1, 0)]


def test_elements_of_a_list_cross_one_by_one():
    def program(x):
        with anabranch.stream(1):
            a, b = x.split(2)
        return a.sin() + b

    crossed = [b for b in boundaries(make_explicit(functional(program, X))) if b[0] is JOIN]
    assert [values for _, _, _, values in crossed] == [["getitem"], ["getitem_1"]]


def test_no_node_keeps_the_key():
    def program(x):
        with anabranch.stream(1):
            h = x.sin()
        return h + x

    gm = make_explicit(functional(program, X))
    assert not any(STREAM_KEY in (n.meta.get("custom") or {}) for n in gm.graph.nodes)


def mix(program) -> str:
    with pytest.raises(StreamMix) as refused:
        make_explicit(functional(program, X))
    return str(refused.value)


def test_results_of_forks_are_named_as_the_user_named_them():
    def program(x):
        (a,) = (anabranch.fork_stream(x, target=1),)
        b, c = anabranch.fork_stream(x, x, target=2)
        return a + c

    text = mix(program)
    assert "'add' uses 'fork_stream' on stream 1 and 'c' on stream 2" in text
    assert "write anabranch.fork_stream(fork_stream, source=1, target=2) and use its result" in text
    assert text.endswith("return a + c")


def test_the_users_line_is_named_and_not_pytorchs():
    layer = torch.nn.Bilinear(4, 4, 1)

    def bilinear(x):
        a = anabranch.fork_stream(x, target=1)
        b = anabranch.fork_stream(x, target=2)
        return layer(a, b)

    assert mix(bilinear).endswith("return layer(a, b)")


def test_no_view_is_left_that_memory_does_not_show():
    """``imag`` of a conjugate is a view whose negation PyTorch leaves to whoever reads it."""

    def program(x):
        with anabranch.stream(1):
            return (x * x).conj().imag.clone()

    run(program, torch.randn(4, dtype=torch.complex64), seeds=[0])


@pytest.mark.parametrize("lazy", [lambda z: z.conj().imag, lambda z: z.conj().imag[:, 1:].t(), lambda z: z.conj()])
def test_an_input_may_be_a_view_that_memory_does_not_show(lazy):
    def program(x):
        with anabranch.stream(1):
            return x + 1

    torch.compiler.reset()
    compiled = torch.compile(program, backend="anabranch", fullgraph=True)
    z = torch.randn(4, 4, dtype=torch.complex64)
    with torch.no_grad():
        # In either order: a graph that was compiled for one kind of input is not used for the other.
        for x in (lazy(z), lazy(z).clone(), lazy(z)):
            torch.testing.assert_close(compiled(x), x + 1)
