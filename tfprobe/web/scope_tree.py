"""The scopes of a work as a tree, and where in it each stands by its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tfprobe.analysis.core.name_scopes import bounded, by_layer
from tfprobe.analysis.ops.cost_tree import Shown
from tfprobe.analysis.ops.scope_view import scope
from tfprobe.analysis.ops.view_options import Choice
from tfprobe.profile.graph import Graph, Node
from tfprobe.web.opened import OpenRun
from tfprobe.web.priced import Priced


@dataclass(frozen=True, slots=True, eq=False)
class ScopeTree:
    """Everything below one root, and each place by its path, the root by ""."""

    root: Shown
    by_path: Mapping[str, Shown]


def scope_tree(run: OpenRun, found: Priced, *, layers: bool) -> ScopeTree:
    """Return the tree of scopes, or of layers, which have their gradients below them."""
    return run.made(("scope tree", found.place, layers), lambda: _tree(found, layers=layers))


def _tree(found: Priced, *, layers: bool) -> ScopeTree:
    sampled = found.sampled
    if layers:
        sampled = replace(sampled, graph=by_layer(sampled.graph))
    sampled = replace(sampled, graph=Graph(tuple(_bounded(each) for each in sampled.graph.nodes)))
    deepest = max((node.name.count("/") for node in sampled.graph.nodes), default=0)
    root = scope(sampled, found.costs, Choice(max_depth=deepest + 3, order_by="micros"))
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
