"""Imports an explicit graph into MLIR: value form in the torch dialect, with the streams and each argument's layout."""

import torch
from torch.fx import GraphModule
from torch_mlir import ir
from torch_mlir.extras import fx_importer
from torch_mlir.extras.fx_importer import FxImporter

from anabranch.dialect.errors import UnsupportedOp
from anabranch.dialect.layout import LAYOUT_ATTR, Layout
from anabranch.dialect.ops import STREAMS_ATTR, new_context

# The torch dialect has these types, but the importer's table does not: attention on a GPU returns its seed in one.
fx_importer.TORCH_DTYPE_TO_MLIR_TYPE_ASM |= {torch.uint16: "ui16", torch.uint64: "ui64"}


def import_graph(gm: GraphModule, streams: dict[int, str]) -> ir.Module:
    """The module of a flat explicit graph, in a context of its own. Raises ``UnsupportedOp``."""
    graph = gm.graph
    importer = FxImporter(context=new_context())
    try:
        importer.import_stateless_graph(graph, func_name="main")
    except (NotImplementedError, TypeError, AttributeError, KeyError) as error:
        raise UnsupportedOp(op="the graph", reason=f"torch-mlir cannot import it: {error}") from error
    module = importer.module
    with module.context:
        kinds = {str(i): ir.StringAttr.get(kind) for i, kind in sorted(streams.items())}
        module.operation.attributes[STREAMS_ATTR] = ir.DictAttr.get(kinds)
        (main,) = [op.operation for op in module.body.operations]
        layouts = [Layout.of(node.meta["val"]) for node in graph.nodes if node.op == "placeholder"]
        named = [ir.DictAttr.get({LAYOUT_ATTR: ir.StringAttr.get(str(layout))}) for layout in layouts]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(named)
    return module
