"""What the scopes of a loop cost, or its layers: a tree by the parts of names, down from `at`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tfprobe.analysis.core.source_lines import SourceLines
from tfprobe.analysis.core.tensor_sizes import shape_text
from tfprobe.analysis.ops.op_stats import AT, nothing
from tfprobe.analysis.ops.scope_neighbours import (
    ARGUMENTS,
    Edge,
    Neighbours,
    ScopeGroup,
    flows,
    neighbours,
    without,
)
from tfprobe.analysis.ops.scope_view import SCOPE_TYPE
from tfprobe.errors import NoAnswer
from tfprobe.profile.graph import Node
from tfprobe.profile.tables import Int64s
from tfprobe.report.documents.document import Document
from tfprobe.web import loop_costs
from tfprobe.web.code_tree import TreePlace, file_places, fold, scope_tree
from tfprobe.web.loop_costs import LoopCosts, NothingRecorded
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params
from tfprobe.web.values import address, is_whole_name, shown_name


def document(run: OpenRun, question: Params) -> Document:
    """Return the scopes from `at` down, in columns of places, with costs of a mean step.

    The path of a place is that of its parent, "/" and its name; that of the first is `at`. It
    cannot be requested if `is_whole` is false.
    """
    by = question.one_of("by", ("scope", "layer"), default="scope")
    metric = question.one_of("metric", tuple(loop_costs.METRICS), default="time")
    at = question.text("at")
    return loop_costs.costs_document(
        run, question, lambda found: _document(run, found, by, metric, at)
    )


def _document(run: OpenRun, found: LoopCosts, by: str, metric: str, at: str) -> Document:
    tree = scope_tree(run, found, layers=by == "layer")
    top = tree.by_path.get(at)
    if top is None:
        raise NoAnswer(f"No op of this loop has the scope {shown_name(at)!r}.")
    return {
        **loop_costs.head(run, found),
        "by": by,
        "metric": metric,
        "at": at,
        "whole": loop_costs.row(found, tree.root.total, loop_costs.missing(found)),
        "places": _columns(found, fold(top, AT[loop_costs.METRICS[metric]]), at),
    }


def _columns(found: LoopCosts, places: list[TreePlace], at: str) -> Document:
    labels = [_label(places, place, at) for place in places]
    return {
        "name": [shown_name(label) for label in labels],
        "is_whole": [is_whole_name(label) for label in labels],
        "type": [_type(found, place) for place in places],
        **cost_columns(found, places),
    }


def cost_columns(found: LoopCosts, places: list[TreePlace]) -> Document:
    """Return the columns that all trees have: parents, costs, and what is too small to be shown."""
    unknown = loop_costs.missing(found)
    totals = [loop_costs.row(found, place.shown.total, unknown) for place in places]
    owns = [loop_costs.row(found, _own(place), unknown) for place in places]
    steps = max(found.steps, 1)
    return {
        "parent": [place.parent for place in places],
        **{name: [total[name] for total in totals] for name in loop_costs.columns(found)},
        "own_time_ns": [own["time_ns"] for own in owns],
        "smaller": [place.smaller for place in places],
        "smaller_cost": [round(place.smaller_cost / steps) for place in places],
    }


def _own(place: TreePlace) -> Int64s:
    return place.shown.branch.own


def _label(places: list[TreePlace], place: TreePlace, at: str) -> str:
    """Return the last part of a name; the first place has that of `at`."""
    name = place.shown.branch.name
    if place.parent < 0:
        return at.rpartition("/")[2]
    above = places[place.parent]
    prefix = above.shown.branch.name if above.parent >= 0 or at else ""
    return name[len(prefix) + 1 :] if prefix else name


def _type(found: LoopCosts, place: TreePlace) -> str | None:
    """Return the op of a place that is a node, None of a scope."""
    branch = place.shown.branch
    if not branch.members or SCOPE_TYPE in branch.types:
        return None
    return shown_name(found.sampled.graph.nodes[branch.members[0]].op)


# A drawing of more has no room for names. The costliest are drawn, and a few of what is outside.
MOST_GROUPS = 300
_MOST_OUTSIDE = 30
_MOST_EDGES = 1500
_MOST_SHAPES = 20


def graph_document(run: OpenRun, question: Params) -> Document:
    """Return groups and edges, which name groups by their place in the list; of a mean step.

    A group is an "op", a "scope" that can be entered, or "outside" of `at`. `left` are the
    cheapest below `at`, which are not shown; nor is what never ran, unless `idle=show`.
    """
    at = question.text("at").strip("/")
    idle = question.one_of("idle", ("hide", "show"), default="hide")
    return loop_costs.costs_document(
        run, question, lambda found: _graph_body(run, found, at, with_idle=idle == "show")
    )


def _graph_body(run: OpenRun, found: LoopCosts, at: str, *, with_idle: bool) -> Document:
    if not found.sampled.has_graph:
        raise NothingRecorded(
            "The recording has no graph of these steps.", hint="Ops and scopes it has."
        )
    inputs = run.made(("flows", found.place), lambda: flows(found.sampled))
    around = neighbours(found.sampled, inputs, at)
    inside = [each for each in around.groups.values() if not each.is_outside]
    if not inside:
        raise NoAnswer(f"No op of this loop has the scope {shown_name(at)!r}.")
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
    lost_ns = sum(int(cost[AT["time_ns"]]) for cost in lost)
    tree = scope_tree(run, found, layers=False)
    unknown = loop_costs.missing(found)
    for group in drawn:
        if group.is_outside:
            shown = tree.by_path.get(group.path)
            costs[group.path] = nothing() if shown is None else shown.total
    files = file_places(run, found)
    return {
        **loop_costs.head(run, found),
        "at": at,
        "whole": loop_costs.row(found, tree.root.total, unknown),
        "idle": "show" if with_idle else "hide",
        "idle_groups": len(idle),
        "groups": [
            {
                **_group(found, group, at),
                **_node(found, group, files),
                **loop_costs.row(found, costs[group.path], unknown),
            }
            for group in drawn
        ],
        "edges": [
            _edge(edge, places[ends[0]], places[ends[1]]) for ends, edge in edges[:_MOST_EDGES]
        ],
        "left": {"groups": len(lost), "time_ns": round(lost_ns / max(found.steps, 1))},
        "left_edges": max(len(edges) - _MOST_EDGES, 0),
    }


def _sum(found: LoopCosts, members: Sequence[int]) -> Int64s:
    total: Int64s = found.costs.rows[list(members)].sum(axis=0)
    return total


def _outside(around: Neighbours, drawn: set[str]) -> list[ScopeGroup]:
    """Return what is outside and has most to do with what is drawn."""
    weights: Counter[str] = Counter()
    for (source, target), edge in around.edges.items():
        for path, other in ((source, target), (target, source)):
            if around.groups[path].is_outside and other in drawn:
                weights[path] += edge.tensors + edge.waits + edge.is_bridge
    paths = sorted(weights, key=lambda path: (-weights[path], path))
    return [around.groups[path] for path in paths[:_MOST_OUTSIDE]]


def _group(found: LoopCosts, group: ScopeGroup, at: str) -> Document:
    """Return what a group is called, what it is and what is in it."""
    nodes = [found.sampled.graph.nodes[member] for member in group.members]
    types = Counter(node.op for node in nodes)
    inside = bool(at) and group.path.startswith(f"{at}/")
    kind = "outside" if group.is_outside else "scope" if group.is_scope else "op"
    if group.path == at:
        kind = "op"  # the scope is this very op; it is entered already
    return {
        "kind": kind,
        "path": None if group.path == ARGUMENTS else address(group.path),
        "name": shown_name(group.path[len(at) + 1 :] if inside else group.path),
        "nodes": len(nodes),
        "types": [
            {"type": shown_name(op), "nodes": count}
            for op, count in sorted(types.items(), key=lambda each: (-each[1], each[0]))[:5]
        ],
    }


def _node(found: LoopCosts, group: ScopeGroup, files: Mapping[str, int]) -> Document:
    """Return what is known of the op that a group is, or has the name of."""
    nodes = found.sampled.graph.nodes
    at = next((member for member in group.members if nodes[member].name == group.path), None)
    if at is None:
        return {"op": None}
    node = nodes[at]
    line = SourceLines({graph_node.name: graph_node for graph_node in nodes}).line(node.name)
    return {
        "op": {
            "type": shown_name(node.op),
            "device": shown_name(found.sampled.devices[at] or "") or None,
            "outputs": _outputs(found, node),
            "file": None if line is None else files.get(line.file),
            "line": None if line is None else line.line,
            "code": None if line is None else shown_name(f"{line.file}:{line.line}"),
        }
    }


def _outputs(found: LoopCosts, node: Node) -> list[str | None]:
    shapes = found.sampled.shapes
    numbers = sorted({*node.output_shapes, *(range(len(node.dtypes)))})
    return [shape_text(node, number, shapes) or None for number in numbers[:_MOST_SHAPES]]


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
