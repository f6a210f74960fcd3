"""Match names by regexes, and name what computes gradients after its layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import re2

from tfprobe.profile.graph import Graph, Node

BACKWARD = "(backward)"
# What moves tensors and signals between devices, begins a step or ends it: no layer.
RUNTIME = "(runtime)"
# "edge_185_conv/MatMul" brings what that op made; no name of a program begins with "_" or "^".
_EDGE = re.compile(r"\^?edge_\d+_")
_MOVES = re.compile(r"_?(?:Host)?(?:Send|Recv)\Z|RecvTensor\Z|MEMCPY|Copy\w+To\w+\Z")
_MARKS = ("gradient_tape/", "gradients/")


def by_layer(graph: Graph) -> Graph:
    """Return the graph with the nodes of gradients below their layers, in a scope `(backward)`.

    The runtime's own nodes stand in a scope `(runtime)`, with their names as one step of the path.

    A layer is a scope of the forward pass that is no node itself, the innermost that fits.
    Gradients of ops outside any scope keep their names, and so do inputs: this graph has no edges.
    """
    nodes = {node.name for node in graph.nodes}
    own = {node.name for node in graph.nodes if _is_runtimes(node)}
    forward = {name for name in nodes - own if _of_gradient(name) is None}
    layers = {scope for name in forward for scope in scopes_around(name)} - nodes
    return Graph(tuple(_placed(node, layers) for node in graph.nodes))


def _is_runtimes(node: Node) -> bool:
    if node.name.startswith(("_", "^_")):
        return True
    return bool(_EDGE.match(node.name) and _MOVES.match(node.op))


def _placed(node: Node, layers: set[str]) -> Node:
    if _is_runtimes(node):
        return replace(node, name=f"{RUNTIME}/{node.name.replace('/', ':')}")
    path = _of_gradient(node.name)
    if path is None:
        return node
    layer = next((scope for scope in scopes_around(path) if scope in layers), None)
    if layer is None:
        return node
    return replace(node, name=f"{layer}/{BACKWARD}{path.removeprefix(layer)}")


def _of_gradient(name: str) -> str | None:
    """Return the name behind the mark of gradients, which is the forward op's or below it."""
    for mark in _MARKS:
        before, found, path = name.rpartition(mark)
        if found and (not before or before.endswith("/")) and path:
            return path
    return None


# No model nests deeper, nor has longer names for its layers.
MOST_SCOPES = 256
MOST_CHARACTERS = 4096
# Looks like the sign between scopes, and is none.
_NO_SCOPE = "\N{DIVISION SLASH}"


def scopes_around(name: str) -> list[str]:
    """Return the scopes around a name, innermost first; of a name without end the outermost."""
    parts = name[:MOST_CHARACTERS].split("/", MOST_SCOPES)[:-1]
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def bounded(name: str) -> str:
    """Return a name that has no more scopes than are told: what is deeper is one step."""
    if len(name) <= MOST_CHARACTERS and name.count("/") <= MOST_SCOPES:
        return name
    around = next(iter(scopes_around(name)), "")
    inside = name[len(around) :].lstrip("/")
    return f"{around}/{inside.replace('/', _NO_SCOPE)}"


_QUIET = re2.Options()
_QUIET.log_errors = False


@dataclass(frozen=True, slots=True)
class Patterns:
    """Compiled regexes. One that does not compile matches nothing; `invalid` says which and why."""

    texts: tuple[str, ...]
    # RE2's objects, which have no public type.
    compiled: tuple[Any, ...]
    invalid: tuple[tuple[str, str], ...]

    @property
    def takes_all(self) -> bool:
        """Whether these are the one pattern that stands for "no restriction"."""
        return self.texts == (".*",)

    def any_matches(self, name: str) -> bool:
        """Tell whether one of them is the whole name."""
        return self.takes_all or any(each.fullmatch(name) for each in self.compiled)

    def any_is_in(self, text: str) -> bool:
        """Tell whether one of them is found anywhere in a text."""
        return any(each.search(text) for each in self.compiled)


def compile_patterns(texts: Sequence[str]) -> Patterns:
    """Compile regexes, keeping apart those that cannot be."""
    compiled, invalid = [], []
    for text in texts:
        try:
            compiled.append(re2.compile(text, _QUIET))
        except re2.error as exc:
            invalid.append((text, _message(exc)))
    return Patterns(tuple(texts), tuple(compiled), tuple(invalid))


def _message(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
