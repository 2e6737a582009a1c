"""The functional graph of a program, as the compiler gets it."""

import torch
from torch.fx import GraphModule

from anabranch.dialect import torch_compat
from anabranch.dialect.capture import capture


def functional(program, *inputs) -> GraphModule:
    """The functional graph that AOTAutograd makes of ``program``, not yet explicit."""
    graphs = []

    def backend(gm, example_inputs):
        captured = capture(gm, example_inputs)

        def keep(aot, _):
            graphs.append(aot)
            return aot.forward

        return torch_compat.inference_backend(keep)(captured.graph, example_inputs)

    torch.compiler.reset()
    with torch.no_grad():
        torch.compile(program, backend=backend, fullgraph=True)(*inputs)
    return graphs[0]
