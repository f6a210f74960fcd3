"""The data flow between the scopes directly below a scope, and to and from its outside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tfprobe.analysis.core.tensor_sizes import output_bytes, shape_text
from tfprobe.profile.graph import Node, TracedLoop

# The group of function arguments of unknown origin.
ARGUMENTS = "(arguments)"
_MOST_SHAPES = 4
# Calls can be nested, but not without end: the file is damaged then.
_MOST_CALLS = 16


@dataclass(slots=True, eq=False)
class ScopeGroup:
    """A scope or op directly below the chosen scope, or one outside; `path` is its name.

    `members` are its nodes. An op that has others below it is also a scope.
    """

    path: str
    is_outside: bool
    members: list[int] = field(default_factory=list)
    is_scope: bool = False


@dataclass(slots=True, eq=False)
class Edge:
    """The tensors that flow from one group to another, each once however many ops read it.

    `known_bytes` are those of the `known` tensors with known sizes. `waits` counts control edges.
    `is_bridge`: the data flows through groups that are left out.
    """

    tensors: int = 0
    known: int = 0
    known_bytes: int = 0
    waits: int = 0
    shapes: dict[str, int] = field(default_factory=dict)
    is_bridge: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ScopeFlow:
    """One input of one node, by name; `producer` is -1 if it is unknown."""

    name: str
    producer: int
    output: int
    consumer: int
    is_wait: bool


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Groups by path, and edges by the paths of their ends, which differ."""

    groups: Mapping[str, ScopeGroup]
    edges: Mapping[tuple[str, str], Edge]


def flows(traced: TracedLoop) -> tuple[ScopeFlow, ...]:
    """Return all inputs of all nodes; arguments of functions are replaced by what is passed."""
    ids = {node.name: at for at, node in enumerate(traced.graph.nodes)}
    return tuple(
        flow
        for at, node in enumerate(traced.graph.nodes)
        for flow in _inputs(traced, ids, at, node)
    )


def neighbours(traced: TracedLoop, inputs: Iterable[ScopeFlow], scope: str) -> Neighbours:
    """Return the groups directly below `scope`, "" for the whole graph, and those around it.

    Nodes outside are grouped by the outermost scopes that do not contain `scope`.
    """
    names = [node.name for node in traced.graph.nodes]
    paths = [_place(name, scope) for name in names]
    groups: dict[str, ScopeGroup] = {}
    for at, (path, is_outside) in enumerate(paths):
        if not is_outside:
            group = groups.setdefault(path, ScopeGroup(path, is_outside=False))
            group.members.append(at)
            group.is_scope = group.is_scope or names[at] != path
    edges: dict[tuple[str, str], Edge] = {}
    counted: set[tuple[str, str, str, int, int]] = set()
    for flow in inputs:
        source, from_outside = (ARGUMENTS, True) if flow.producer < 0 else paths[flow.producer]
        target, to_outside = paths[flow.consumer]
        if source == target or (from_outside and to_outside):
            continue
        for path, is_outside in ((source, from_outside), (target, to_outside)):
            if is_outside:
                groups.setdefault(path, ScopeGroup(path, is_outside=True, is_scope=True))
        key = (source, target, flow.name, flow.output, flow.consumer if flow.is_wait else -1)
        if key not in counted:
            counted.add(key)
            _add(edges.setdefault((source, target), Edge()), flow, traced)
    return Neighbours(groups, edges)


def without(found: Neighbours, left_out: Collection[str]) -> Neighbours:
    """Return the groups without those left out; flows through these become bridges."""
    groups = {path: group for path, group in found.groups.items() if path not in left_out}
    edges = {ends: edge for ends, edge in found.edges.items() if groups.keys() >= set(ends)}
    after: dict[str, list[str]] = {}
    for source, target in found.edges:
        after.setdefault(source, []).append(target)
    for source, group in groups.items():
        # Flows between groups outside do not concern the scope.
        for target in _beyond(source, after, left_out):
            if target != source and not (group.is_outside and groups[target].is_outside):
                edges.setdefault((source, target), Edge(is_bridge=True))
    return Neighbours(groups, edges)


def _beyond(source: str, after: Mapping[str, list[str]], left_out: Collection[str]) -> set[str]:
    """Return the groups that can be reached from a group only through those left out."""
    seen: set[str] = set()
    waiting = [path for path in after.get(source, ()) if path in left_out]
    paths: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for target in after.get(path, ()):
            (waiting.append if target in left_out else paths.add)(target)
    return paths


def _inputs(traced: TracedLoop, ids: Mapping[str, int], at: int, node: Node) -> Iterator[ScopeFlow]:
    for index, name in sorted(node.inputs.items()):
        output = node.sources.get(index, 0)
        passed = 0
        while name not in ids and name in traced.arguments and passed < _MOST_CALLS:
            name, output = traced.arguments[name]
            passed += 1
        yield ScopeFlow(name, ids.get(name, -1), output, at, is_wait=index in node.waits)


def _place(name: str, scope: str) -> tuple[str, bool]:
    """Return the group of a node, and whether it is outside the scope."""
    if not scope:
        return _first_part(name, 0), False
    if name == scope:
        return name, False
    if name.startswith(f"{scope}/"):
        return _first_part(name, len(scope) + 1), False
    # The outermost scope around the node that is not also around `scope`.
    start = 0
    while (end := name.find("/", start)) >= 0 and f"{scope}/".startswith(name[: end + 1]):
        start = end + 1
    return _first_part(name, start), True


def _first_part(name: str, start: int) -> str:
    """Return a name up to the end of the part that starts at `start`, which can be empty."""
    end = name.find("/", start + 1)
    return name if end < 0 else name[:end]


def _add(edge: Edge, flow: ScopeFlow, traced: TracedLoop) -> None:
    if flow.is_wait:
        edge.waits += 1
        return
    edge.tensors += 1
    if flow.producer < 0:
        return
    node = traced.graph.nodes[flow.producer]
    size = output_bytes(node, flow.output, traced.shapes)
    if size is not None:
        edge.known += 1
        edge.known_bytes += size
    text = shape_text(node, flow.output, traced.shapes)
    if text and (text in edge.shapes or len(edge.shapes) < _MOST_SHAPES):
        edge.shapes[text] = edge.shapes.get(text, 0) + 1
