"""Turn views into the messages that tfprof's Python interface answers with. Prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfprobe.analysis.ops.code_view import CodeView
from tfprobe.analysis.ops.cost_tree import TreeNode
from tfprobe.analysis.ops.op_stats import AT, NS_PER_US, Costs
from tfprobe.analysis.ops.op_view import OpView, input_shapes
from tfprobe.formats.schema import message_class
from tfprobe.profile.graph import Placed, Shape
from tfprobe.profile.tables import Int64s
from tfprobe.tfprof.report import Viewed

# Any: message classes are made at run time.
GraphNodeProto: Any = message_class("tfprobe.tfprof.GraphNodeProto")
MultiGraphNodeProto: Any = message_class("tfprobe.tfprof.MultiGraphNodeProto")
AdviceProto: Any = message_class("tfprobe.tfprof.AdviceProto")

# Field of both messages -> column of a row of costs; with `total_` before it, that of the total.
_AMOUNTS: Mapping[str, str] = {
    "exec_micros": "time_ns",
    "accelerator_exec_micros": "accelerator_ns",
    "cpu_exec_micros": "cpu_ns",
    "requested_bytes": "bytes",
    "peak_bytes": "peak_bytes",
    "residual_bytes": "residual_bytes",
    "output_bytes": "output_bytes",
    "parameters": "params",
    "float_ops": "float_ops",
}


def empty(view: str) -> Any:
    """Return the answer of a view that has none."""
    return GraphNodeProto() if view in ("graph", "scope") else MultiGraphNodeProto()


def message(profile: Placed, seen: Viewed) -> Any:
    """Return a view as the message that tfprof answers with."""
    if isinstance(seen.found, OpView):
        return op_node(profile, seen.costs, seen.found)
    if isinstance(seen.found, CodeView):
        return code_node(profile, seen.costs, seen.found.shown)
    return graph_node(profile, seen.found)


def advice(reports: Mapping[str, Iterable[str]]) -> Any:
    """Return what checkers report as an AdviceProto; one with no reports is in it, too."""
    written = AdviceProto()
    for name, texts in reports.items():
        written.checkers[name].reports.extend(texts)
    return written


def graph_node(profile: Placed, shown: TreeNode) -> Any:
    """Return a scope or graph view as a GraphNodeProto.

    A chain of ops is a message as deep as the chain is long. By default protobuf parses at most a
    hundred levels.
    """
    ids = {node.name: at for at, node in enumerate(profile.graph.nodes)}

    def write(each: TreeNode, written: Any) -> None:
        members = each.branch.members
        _write_graph_node(written, profile, ids, members[0] if members else None)
        written.name = each.branch.name
        _write_amounts(written, each.branch.own, each.total)
        _set(written, "run_count", int(each.branch.own[AT["runs"]]))
        _set(written, "total_run_count", int(each.total[AT["runs"]]))
        _set(written, "total_definition_count", int(each.total[AT["definitions"]]))

    return _tree(shown, GraphNodeProto(), write)


def code_node(profile: Placed, costs: Costs, shown: TreeNode) -> Any:
    """Return a code view as a MultiGraphNodeProto."""
    ids = {node.name: at for at, node in enumerate(profile.graph.nodes)}

    def write(each: TreeNode, written: Any) -> None:
        written.name = each.branch.name
        _write_amounts(written, each.branch.own, each.total)
        _write_members(written, profile, costs, ids, each.branch.members)

    return _tree(shown, MultiGraphNodeProto(), write)


def op_node(profile: Placed, costs: Costs, view: OpView) -> Any:
    """Return an op view as a MultiGraphNodeProto: each op is the only child of the one before."""
    ids = {node.name: at for at, node in enumerate(profile.graph.nodes)}
    root = MultiGraphNodeProto(name="_TFProfRoot")
    _write_amounts(root, None, view.total)
    last = root
    for entry in view.entries:
        last = last.children.add(name=entry.name)
        _write_amounts(last, entry.own, entry.rest)
        _write_members(last, profile, costs, ids, entry.members)
    return root


def _tree(shown: TreeNode, root: Any, write: Callable[[TreeNode, Any], None]) -> Any:
    waiting = [(shown, root)]
    while waiting:
        each, written = waiting.pop()
        write(each, written)
        waiting.extend((child, written.children.add()) for child in each.children)
    return root


def _write_members(
    written: Any, profile: Placed, costs: Costs, ids: dict[str, int], members: tuple[int, ...]
) -> None:
    names = {profile.graph.nodes[at].name: at for at in members}
    for name in sorted(names):
        row = costs.rows[names[name]]
        node = written.graph_nodes.add(name=name)
        _write_graph_node(node, profile, ids, names[name])
        _write_amounts(node, row, row)
        _set(node, "run_count", int(row[AT["runs"]]))
        _set(node, "total_run_count", int(row[AT["runs"]]))
        _set(node, "total_definition_count", int(row[AT["definitions"]]))


def _write_graph_node(written: Any, profile: Placed, ids: dict[str, int], at: int | None) -> None:
    """Write what a node is, apart from its name and its costs; the engine leaves `shapes` empty."""
    if at is None:
        return
    device = profile.devices[at]
    if device:
        written.devices.append(device)
    for index, each in input_shapes(profile, ids, at):
        _write_shape(written.input_shapes[index], each)


def _write_shape(written: Any, shape: Shape) -> None:
    written.unknown_rank = not shape
    for size in shape:
        written.dim.add(size=size)


def _write_amounts(written: Any, own: Int64s | None, total: Int64s) -> None:
    for field, column in _AMOUNTS.items():
        unit = NS_PER_US if column.endswith("_ns") else 1
        if own is not None:
            _set(written, field, int(own[AT[column]]) // unit)
        _set(written, f"total_{field}", int(total[AT[column]]) // unit)


def _set(written: Any, field: str, value: int) -> None:
    """Write what is not 0: TensorFlow's own classes know no other absence."""
    if value:
        setattr(written, field, value)
