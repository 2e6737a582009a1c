"""Imports an explicit graph into MLIR: value form in the torch dialect, with the streams and each argument's layout."""

import torch
from torch.fx import GraphModule, Node
from torch_mlir import ir
from torch_mlir.extras import fx_importer

from anabranch.dialect.capture import place
from anabranch.dialect.errors import UnsupportedOp
from anabranch.dialect.layout import LAYOUT_ATTR, Layout
from anabranch.dialect.ops import STREAMS_ATTR, new_context

# The torch dialect has these types, but the importer's table does not: attention on a GPU returns its seed in one.
fx_importer.TORCH_DTYPE_TO_MLIR_TYPE_ASM |= {torch.uint16: "ui16", torch.uint64: "ui64"}


def import_graph(gm: GraphModule, streams: dict[int, str]) -> ir.Module:
    """The module of a flat explicit graph, in a context of its own. Raises ``UnsupportedOp``."""
    for node in gm.graph.nodes:
        _check_dtypes(node)
    importer = fx_importer.FxImporter(context=new_context(), graph_node_importer_cls=_NodeImporter)
    importer.import_stateless_graph(gm.graph, func_name="main")
    module = importer.module
    with module.context:
        kinds = {str(i): ir.StringAttr.get(kind) for i, kind in sorted(streams.items())}
        module.operation.attributes[STREAMS_ATTR] = ir.DictAttr.get(kinds)
        (main,) = [op.operation for op in module.body.operations]
        layouts = [Layout.of(node.meta["val"]) for node in gm.graph.nodes if node.op == "placeholder"]
        named = [ir.DictAttr.get({LAYOUT_ATTR: ir.StringAttr.get(str(layout))}) for layout in layouts]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(named)
    return module


def _check_dtypes(node: Node) -> None:
    value = node.meta.get("val")
    for x in value if isinstance(value, list | tuple) else [value]:
        if isinstance(x, torch.Tensor) and x.dtype not in fx_importer.TORCH_DTYPE_TO_MLIR_TYPE_ASM:
            reason = f"it is a tensor of {x.dtype}, which MLIR's torch dialect lacks: convert it outside of the function"
            raise UnsupportedOp(op=_named(node), reason=reason, where=place(node))


def _named(node: Node) -> str:
    return f"argument '{node.name}'" if node.op == "placeholder" else f"'{node.name}' ({node.target})"


class _NodeImporter(fx_importer.GraphNodeImporter):
    """Says which op cannot be imported."""

    def _import_torch_op_overload(self, loc, node, concrete_target=None):
        try:
            super()._import_torch_op_overload(loc, node, concrete_target)
        except Exception as error:
            # It raises exceptions of many kinds for what it does not know.
            reason = f"torch-mlir cannot import it: {error}"
            raise UnsupportedOp(op=_named(node), reason=reason, where=place(node)) from error
