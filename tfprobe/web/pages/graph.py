"""The graph of a work, collapsed by scope: what is directly below `at`, and what flows there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tfprobe.analysis.core.source_lines import SourceLines
from tfprobe.analysis.core.tensor_sizes import shape_text
from tfprobe.analysis.ops.costs import AT, Int64s, nothing
from tfprobe.analysis.ops.scope_neighbours import (
    ARGUMENTS,
    Edge,
    Group,
    Neighbours,
    flows,
    neighbours,
    without,
)
from tfprobe.errors import NoAnswer
from tfprobe.profile.graph import Node
from tfprobe.web import names, priced
from tfprobe.web.code_tree import file_places
from tfprobe.web.opened import OpenRun
from tfprobe.web.priced import NothingRecorded, Priced
from tfprobe.web.question import Question
from tfprobe.web.scope_tree import scope_tree

Document = dict[str, Any]  # Any: JSON values

# A drawing of more has no room for names. The dearest are drawn, and a few of what is outside.
MOST_GROUPS = 300
_MOST_OUTSIDE = 30
_MOST_EDGES = 1500
_MOST_TOLD = 20


def document(run: OpenRun, question: Question) -> Document:
    """Return groups and edges, which name groups by their place in the list; of a mean step.

    A group is an "op", a "scope" that can be entered, or "outside" of `at`. `left` are the
    cheapest below `at`, which are not told; nor is what never ran, unless `idle=show`.
    """
    at = question.text("at").strip("/")
    idle = question.one_of("idle", ("hide", "show"), default="hide")
    return priced.told(
        run, question, lambda found: _document(run, found, at, with_idle=idle == "show")
    )


def _document(run: OpenRun, found: Priced, at: str, *, with_idle: bool) -> Document:
    if not found.sampled.has_graph:
        raise NothingRecorded(
            "The recording has no graph of these steps.", hint="Ops and scopes it has."
        )
    inputs = run.made(("flows", found.place), lambda: flows(found.sampled))
    around = neighbours(found.sampled, inputs, at)
    inside = [each for each in around.groups.values() if not each.is_outside]
    if not inside:
        raise NoAnswer(f"No op of this work has the scope {names.shown(at)!r}.")
    costs = {each.path: _sum(found, each.members) for each in inside}
    idle = {each.path for each in inside if not costs[each.path][AT["runs"]]}
    if not with_idle:
        around = without(around, idle)
    kept = [each for each in inside if each.path in around.groups]
    kept.sort(key=lambda each: (-int(costs[each.path][AT["time_ns"]]), each.path))
    drawn = kept[:MOST_GROUPS] + _outside(around, {each.path for each in kept[:MOST_GROUPS]})
    places = {each.path: place for place, each in enumerate(drawn)}
    edges = [(ends, edge) for ends, edge in around.edges.items() if places.keys() >= set(ends)]
    edges.sort(key=lambda each: (-each[1].known_bytes, -each[1].tensors, each[0]))
    lost = [costs[each.path] for each in kept[MOST_GROUPS:]]
    lost_ns = sum(int(each[AT["time_ns"]]) for each in lost)
    tree = scope_tree(run, found, layers=False)
    unknown = priced.missing(found)
    for group in drawn:
        if group.is_outside:
            shown = tree.by_path.get(group.path)
            costs[group.path] = nothing() if shown is None else shown.total
    files = file_places(run, found)
    return {
        **priced.head(run, found),
        "at": at,
        "whole": priced.row(found, tree.root.total, unknown),
        "idle": "show" if with_idle else "hide",
        "idle_groups": len(idle),
        "groups": [
            {
                **_group(found, group, at),
                **_node(found, group, files),
                **priced.row(found, costs[group.path], unknown),
            }
            for group in drawn
        ],
        "edges": [
            _edge(edge, places[ends[0]], places[ends[1]]) for ends, edge in edges[:_MOST_EDGES]
        ],
        "left": {"groups": len(lost), "time_ns": round(lost_ns / max(found.steps, 1))},
        "left_edges": max(len(edges) - _MOST_EDGES, 0),
    }


def _sum(found: Priced, members: Sequence[int]) -> Int64s:
    total: Int64s = found.costs.rows[list(members)].sum(axis=0)
    return total


def _outside(around: Neighbours, drawn: set[str]) -> list[Group]:
    """Return what is outside and has most to do with what is drawn."""
    weights: Counter[str] = Counter()
    for (source, target), edge in around.edges.items():
        for path, other in ((source, target), (target, source)):
            if around.groups[path].is_outside and other in drawn:
                weights[path] += edge.tensors + edge.waits + edge.is_bridge
    found = sorted(weights, key=lambda path: (-weights[path], path))
    return [around.groups[path] for path in found[:_MOST_OUTSIDE]]


def _group(found: Priced, group: Group, at: str) -> Document:
    """Return what a group is called, what it is and what is in it."""
    nodes = [found.sampled.graph.nodes[each] for each in group.members]
    types = Counter(node.op for node in nodes)
    inside = bool(at) and group.path.startswith(f"{at}/")
    kind = "outside" if group.is_outside else "scope" if group.is_scope else "op"
    if group.path == at:
        kind = "op"  # the scope is this very op; it is entered already
    return {
        "kind": kind,
        "path": None if group.path == ARGUMENTS else names.address(group.path),
        "name": names.shown(group.path[len(at) + 1 :] if inside else group.path),
        "nodes": len(nodes),
        "types": [
            {"type": names.shown(op), "nodes": count}
            for op, count in sorted(types.items(), key=lambda each: (-each[1], each[0]))[:5]
        ],
    }


def _node(found: Priced, group: Group, files: Mapping[str, int]) -> Document:
    """Return what is known of the op that a group is, or has the name of."""
    nodes = found.sampled.graph.nodes
    at = next((each for each in group.members if nodes[each].name == group.path), None)
    if at is None:
        return {"op": None}
    node = nodes[at]
    line = SourceLines({each.name: each for each in nodes}).line(node.name)
    return {
        "op": {
            "type": names.shown(node.op),
            "device": names.shown(found.sampled.devices[at] or "") or None,
            "outputs": _outputs(found, node),
            "file": None if line is None else files.get(line.file),
            "line": None if line is None else line.line,
            "code": None if line is None else names.shown(f"{line.file}:{line.line}"),
        }
    }


def _outputs(found: Priced, node: Node) -> list[str | None]:
    shapes = found.sampled.shapes
    numbers = sorted({*node.output_shapes, *(range(len(node.dtypes)))})
    return [shape_text(node, number, shapes) or None for number in numbers[:_MOST_TOLD]]


def _edge(edge: Edge, source: int, target: int) -> Document:
    return {
        "from": source,
        "to": target,
        "tensors": edge.tensors,
        "bytes": edge.known_bytes if edge.known else None,
        "unknown": edge.tensors - edge.known,
        "waits": edge.waits,
        "is_bridge": edge.is_bridge,
        "shapes": list(edge.shapes),
    }
