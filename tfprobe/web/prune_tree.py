"""Tell as much of a tree of costs as a page can show: what is small is counted, not told."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tfprobe.analysis.core.names import bounded, by_layer
from tfprobe.analysis.ops.cost_tree import TreeNode, ViewOptions
from tfprobe.analysis.ops.scope_view import scope
from tfprobe.profile.graph import Graph, Node
from tfprobe.web.loop_costs import Priced
from tfprobe.web.opened import OpenRun

# Less than a pixel of a wide screen.
SMALLEST_RATIO = 1 / 2000
MOST_PLACES = 3000
# Deeper is asked for when one is there; no screen has the rows.
MOST_LEVELS = 120


@dataclass(slots=True, eq=False)
class TreePlace:
    """A place that is told; `parent` is the number of the one above it, -1 of the first.

    `smaller` places directly below it are not told, and cost `smaller_cost` together.
    """

    shown: TreeNode
    parent: int
    smaller: int = 0
    smaller_cost: int = 0
    children: list[TreeNode] = field(default_factory=list)


def fold(top: TreeNode, column: int, *, most: int = MOST_PLACES) -> list[TreePlace]:
    """Return the places from `top` down, parents first, dearest first among those of one parent.

    Told are the dearest in a column of costs: none that is below 1/2,000 of the top, nor one that
    costs nothing.
    """
    told = _dearest(top, column, most)
    places: list[TreePlace] = []
    waiting = [(top, -1)]
    while waiting:
        shown, parent = waiting.pop()
        place = TreePlace(shown, parent)
        kept = [each for each in shown.children if id(each) in told]
        left = [each for each in shown.children if id(each) not in told and _is_used(each, column)]
        place.children = sorted(kept, key=lambda each: (-_cost(each, column), each.branch.name))
        place.smaller = len(left)
        place.smaller_cost = sum(_cost(each, column) for each in left)
        waiting.extend((each, len(places)) for each in reversed(place.children))
        places.append(place)
    return places


def _dearest(top: TreeNode, column: int, most: int) -> Mapping[int, TreeNode]:
    """Return, by identity, the places that are told."""
    least = max(_cost(top, column) * SMALLEST_RATIO, 1)
    told = {id(top): top}
    heap: list[tuple[int, str, int, int, TreeNode]] = []

    def add(children: Iterable[TreeNode], level: int) -> None:
        if level > MOST_LEVELS:
            return
        for each in children:
            cost = _cost(each, column)
            if cost >= least:
                heapq.heappush(heap, (-cost, each.branch.name, id(each), level, each))

    add(top.children, 1)
    while heap and len(told) < most:
        *_, level, shown = heapq.heappop(heap)
        told[id(shown)] = shown
        add(shown.children, level + 1)
    return told


def _cost(shown: TreeNode, column: int) -> int:
    return int(shown.total[column])


def _is_used(shown: TreeNode, column: int) -> bool:
    return _cost(shown, column) > 0


@dataclass(frozen=True, slots=True, eq=False)
class ScopeTree:
    """Everything below one root, and each place by its path, the root by ""."""

    root: TreeNode
    by_path: Mapping[str, TreeNode]


def scope_tree(run: OpenRun, found: Priced, *, layers: bool) -> ScopeTree:
    """Return the tree of scopes, or of layers, which have their gradients below them."""
    return run.made(("scope tree", found.place, layers), lambda: _tree(found, layers=layers))


def _tree(found: Priced, *, layers: bool) -> ScopeTree:
    sampled = found.sampled
    if layers:
        sampled = replace(sampled, graph=by_layer(sampled.graph))
    sampled = replace(sampled, graph=Graph(tuple(_bounded(each) for each in sampled.graph.nodes)))
    deepest = max((node.name.count("/") for node in sampled.graph.nodes), default=0)
    root = scope(sampled, found.costs, ViewOptions(max_depth=deepest + 3, order_by="micros"))
    by_path = {"": root}
    waiting = [root]
    while waiting:
        children = waiting.pop().children
        by_path.update((each.branch.name, each) for each in children)
        waiting.extend(children)
    return ScopeTree(root, by_path)


def _bounded(node: Node) -> Node:
    name = bounded(node.name)
    return node if name == node.name else replace(node, name=name)
