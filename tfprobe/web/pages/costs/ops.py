"""The ops of a loop: by type or each by itself, and how the time is split among them and devices.

`by` says which; `type` asks for the nodes of one op alone, `device` for what ran on one device, by
its place in the list of devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tfprobe.analysis.core.source_lines import SourceLines
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.analysis.ops.flops.count import coverage
from tfprobe.analysis.ops.op_stats import AT, nothing, sums
from tfprobe.analysis.ops.op_view import OpEntry, in_graph, op
from tfprobe.errors import UsageError
from tfprobe.profile.graph import Node
from tfprobe.profile.tables import Int64s
from tfprobe.report.documents.document import Document
from tfprobe.web import loop_costs
from tfprobe.web.code_tree import file_places
from tfprobe.web.loop_costs import LoopCosts
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params
from tfprobe.web.values import address, shown_name

MOST_ROWS = 2000
# Of the treemap: more than these are no rectangles that one could point at.
_TREEMAP_TYPES = 60
_TREEMAP_NODES = 24
_MOST_UNKNOWN = 20
_MOST_IN_GRAPH = 10
_ALL_STEPS = -1
_NS_PER_S = 1_000_000_000


def document(run: OpenRun, question: Params) -> Document:
    """Return the table and what is shown with it.

    Times are of a mean traced step; `total_ns` is of all of them. `left` are the rows beyond the
    costliest 2,000.
    """
    by = question.one_of("by", ("type", "name"), default="type")
    of_type = question.text("type")
    return loop_costs.costs_document(
        run, question, lambda whole: _chosen(run, question, whole, by, of_type)
    )


def _chosen(run: OpenRun, question: Params, whole: LoopCosts, by: str, of_type: str) -> Document:
    devices = loop_costs.devices(whole)
    device = question.whole("device", default=-1, least=0, most=max(len(devices) - 1, 0))
    if device >= len(devices):
        raise UsageError("No step ran on any device.")
    # Not kept, nor are the other pages: what is costly of them is, and questions have no end.
    return _document(run, whole, by, of_type, devices, device)


def _document(
    run: OpenRun, whole: LoopCosts, by: str, of_type: str, devices: Sequence[str], device: int
) -> Document:
    found = whole if device < 0 else whole.only(devices[device])
    total = found.costs.rows.sum(axis=0)
    entries = _entries(found)
    known = coverage(found.sampled, found.float_ops, _ALL_STEPS)
    if by == "type":
        rows = _by_type(found, entries, total)
    else:
        rows = _by_name(found, of_type, total, file_places(run, whole))
    return {
        **loop_costs.head(run, found),
        "by": by,
        "type": shown_name(of_type),
        "device": device if device >= 0 else None,
        "devices": _devices(whole, devices),
        "total": _costs(found, total, total, {}),
        "has_accelerator": bool(total[AT["accelerator_ns"]]),
        **rows,
        "treemap": _treemap(found, entries),
        "float_ops_coverage": {
            "float_ops_ratio": known.float_ops_ratio,
            "ops_ratio": known.ops_ratio,
            "time_ratio": known.time_ratio,
            "unknown": [
                {
                    "op": shown_name(unknown_cost.op),
                    "reason": unknown_cost.reason,
                    "time_ratio": unknown_cost.time_ratio,
                }
                for unknown_cost in known.unknown[:_MOST_UNKNOWN]
            ],
        },
    }


def _entries(found: LoopCosts) -> list[OpEntry]:
    """Return the ops that ran, costliest first."""
    choice = ViewOptions(max_depth=len(found.sampled.graph.nodes), order_by="micros")
    shown = op(found.sampled, found.costs, choice).entries
    return [row for row in shown if row.own[AT["runs"]]]


def _by_type(found: LoopCosts, entries: Sequence[OpEntry], total: Int64s) -> Document:
    unknown = loop_costs.missing(found)
    rows = [
        {
            "type": shown_name(entry.name),
            "nodes": sum(bool(found.costs.rows[at, AT["runs"]]) for at in entry.members),
            "in_graph": _in_graph(found.sampled.graph.nodes[at] for at in entry.members),
            **_costs(found, entry.own, total, unknown),
        }
        for entry in entries[:MOST_ROWS]
    ]
    left = [entry.own for entry in entries[MOST_ROWS:]]
    return {"rows": rows, "left": _left(found, left), "count": len(entries)}


def _by_name(found: LoopCosts, of_type: str, total: Int64s, files: Mapping[str, int]) -> Document:
    graph, costs = found.sampled.graph, found.costs.rows
    unknown = loop_costs.missing(found)
    lines = SourceLines({node.name: node for node in graph.nodes})
    ran = [
        at
        for at in np.flatnonzero(costs[:, AT["runs"]]).tolist()
        if not of_type or shown_name(graph.nodes[at].op) == of_type
    ]
    ran.sort(key=lambda at: (-int(costs[at, AT["time_ns"]]), graph.nodes[at].name))
    rows = []
    for at in ran[:MOST_ROWS]:
        node = graph.nodes[at]
        line = lines.line(node.name)
        rows.append(
            {
                "name": shown_name(node.name),
                "scope": address(node.name.rpartition("/")[0]),
                "type": shown_name(node.op),
                "in_graph": [*_in_graph([node]), *_fused(node)],
                "device": shown_name(found.sampled.devices[at] or ""),
                "code": None if line is None else shown_name(f"{line.file}:{line.line}"),
                "file": None if line is None else files.get(line.file),
                "line": None if line is None else line.line,
                **_costs(found, costs[at], total, unknown),
            }
        )
    left = [costs[at] for at in ran[MOST_ROWS:]]
    return {"rows": rows, "left": _left(found, left), "count": len(ran)}


def _costs(found: LoopCosts, own: Int64s, total: Int64s, unknown: dict[str, str]) -> Document:
    """Return what a row costs: in a mean step, in all of them, and as a share."""
    values: Document = dict(loop_costs.row(found, own, unknown))
    time_ns = int(own[AT["time_ns"]])
    counted, busy_ns = values["float_ops"], int(own[AT["accelerator_ns"]]) or time_ns
    values["total_ns"] = time_ns
    values["occurrences"] = int(own[AT["runs"]])
    values["share_ratio"] = time_ns / int(total[AT["time_ns"]]) if total[AT["time_ns"]] else None
    values["float_ops_per_s"] = (
        None if counted is None or not busy_ns else int(own[AT["float_ops"]]) * _NS_PER_S / busy_ns
    )
    return values


def _left(found: LoopCosts, rows: Sequence[Int64s]) -> Document | None:
    if not rows:
        return None
    together = nothing() + np.sum(rows, axis=0)
    steps = max(found.steps, 1)
    return {"rows": len(rows), "time_ns": round(int(together[AT["time_ns"]]) / steps)}


def _devices(found: LoopCosts, devices: Sequence[str]) -> list[Document]:
    """Return what ran where, in a mean step."""
    rows = found.sampled.executions
    positions = {rows.strings[at]: at for at in np.unique(rows.device).tolist()}
    steps = max(found.steps, 1)
    by_device = sums(rows, rows.device, len(rows.strings.values))
    runs = by_device.cpu_runs + by_device.accelerator_runs
    return [
        {
            "name": shown_name(device),
            "runs": round(int(runs[positions[device]]) / steps, 2),
            "cpu_ns": round(int(by_device.cpu_ns[positions[device]]) / steps),
            "accelerator_ns": round(int(by_device.accelerator_ns[positions[device]]) / steps),
        }
        for device in devices
    ]


def _treemap(found: LoopCosts, entries: Sequence[OpEntry]) -> list[Document]:
    """Return the costliest ops with their costliest nodes; `others_ns` is the rest of each."""
    costs, steps = found.costs.rows, max(found.steps, 1)
    nodes = found.sampled.graph.nodes
    types = []
    for entry in entries[:_TREEMAP_TYPES]:
        by_cost = sorted(entry.members, key=lambda at: (-int(costs[at, AT["time_ns"]]), at))
        shown = [at for at in by_cost[:_TREEMAP_NODES] if costs[at, AT["time_ns"]]]
        time_ns = int(entry.own[AT["time_ns"]])
        shown_ns = sum(int(costs[at, AT["time_ns"]]) for at in shown)
        types.append(
            {
                "type": shown_name(entry.name),
                "time_ns": round(time_ns / steps),
                "nodes": [
                    {
                        "name": shown_name(nodes[at].name),
                        "time_ns": round(int(costs[at, AT["time_ns"]]) / steps),
                    }
                    for at in shown
                ],
                "others": len(entry.members) - len(shown),
                "others_ns": round((time_ns - shown_ns) / steps),
            }
        )
    return types


def _fused(node: Node) -> list[str]:
    """Return the other ops that a fusion was made of."""
    others = [op for op in node.fused if op != node.name]
    return [shown_name(op) for op in others[:_MOST_IN_GRAPH]]


def _in_graph(nodes: Iterable[Node]) -> list[str]:
    """Return what the graph calls nodes that ran as another op: fused ones, and other kernels."""
    return [shown_name(name) for name in in_graph(nodes)[:_MOST_IN_GRAPH]]
