"""Parse the names of ops: scopes, layers, gradients, phases; and match them by regexes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import re2

from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.graph import Graph, Node
from tfprobe.profile.tables import Int8s, having, used

BACKWARD = "(backward)"
# Nodes that move tensors and signals between devices, or begin or end a step, belong to no layer.
RUNTIME = "(runtime)"
# "edge_185_conv/MatMul" transfers the output of that op; names in programs never begin with "_" or
# "^".
_EDGE = re.compile(r"\^?edge_\d+_")
_MOVES = re.compile(r"_?(?:Host)?(?:Send|Recv)\Z|RecvTensor\Z|MEMCPY|Copy\w+To\w+\Z")
_MARKERS = ("gradient_tape/", "gradients/")


def by_layer(graph: Graph) -> Graph:
    """Return the graph with the nodes of gradients moved to a scope `(backward)` of their layers.

    The runtime's own nodes move to a scope `(runtime)`, with their name as a single path component.

    A layer is the innermost matching scope of the forward pass that is no node itself. Gradients of
    ops outside any scope keep their names, and so do inputs: this graph has no edges.
    """
    nodes = {node.name for node in graph.nodes}
    own = {node.name for node in graph.nodes if _is_runtimes(node)}
    forward = {name for name in nodes - own if _of_gradient(name) is None}
    layers = {scope for name in forward for scope in scopes_around(name)} - nodes
    return Graph(tuple(_placed(node, layers) for node in graph.nodes))


def _is_runtimes(node: Node) -> bool:
    if node.name.startswith(("_", "^_")):
        # Functions of JAX may be called "_where"; only instructions of XLA are in lower case.
        return not node.op[:1].islower()
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
    """Return the name after the marker of gradients: that of the forward op, or one below it."""
    for marker in _MARKERS:
        before, separator, path = name.rpartition(marker)
        if separator and (not before or before.endswith("/")) and path:
            return path
    return None


# No model nests deeper or has longer layer names.
MOST_SCOPES = 256
MOST_CHARACTERS = 4096
# Looks like the separator of scopes but is none.
_NO_SCOPE = "\N{DIVISION SLASH}"


def scopes_around(name: str) -> list[str]:
    """Return the scopes around a name, innermost first; of an overlong name, the outermost ones."""
    parts = name[:MOST_CHARACTERS].split("/", MOST_SCOPES)[:-1]
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def bounded(name: str) -> str:
    """Return a name with at most MOST_SCOPES scopes: deeper ones become one path component."""
    if len(name) <= MOST_CHARACTERS and name.count("/") <= MOST_SCOPES:
        return name
    around = next(iter(scopes_around(name)), "")
    inside = name[len(around) :].lstrip("/")
    return f"{around}/{inside.replace('/', _NO_SCOPE)}"


_QUIET = re2.Options()
_QUIET.log_errors = False


@dataclass(frozen=True, slots=True)
class Patterns:
    """Compiled regexes. Invalid ones match nothing; `invalid` has their texts and errors."""

    texts: tuple[str, ...]
    # RE2's objects, which have no public type.
    compiled: tuple[Any, ...]
    invalid: tuple[tuple[str, str], ...]

    @property
    def takes_all(self) -> bool:
        """Return whether these are the one pattern that means "no restriction"."""
        return self.texts == (".*",)

    def any_matches(self, name: str) -> bool:
        """Return whether one of them matches the full name."""
        return self.takes_all or any(pattern.fullmatch(name) for pattern in self.compiled)

    def any_is_in(self, text: str) -> bool:
        """Return whether one of them matches anywhere in a text."""
        return any(pattern.search(text) for pattern in self.compiled)


def compile_patterns(texts: Sequence[str]) -> Patterns:
    """Compile regexes, separating those that are invalid."""
    compiled, invalid = [], []
    for text in texts:
        try:
            compiled.append(re2.compile(text, _QUIET))
        except re2.error as exc:
            invalid.append((text, _message(exc)))
    return Patterns(tuple(texts), tuple(compiled), tuple(invalid))


def _message(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


# Namespaces of PyTorch's ops.
_NAMESPACES = ("aten::", "autograd::", "torch::", "c10d::", "gloo:", "nccl:")
LOADER = "DataLoader"
_UPDATE = re.compile(r"(?:.*/)?\w+\.(?P<call>step|zero_grad)/")
_LOADER = re.compile(rf"(?:.*/)?{LOADER}/")
PHASES = ("outside the model", "forward", "backward", "optimizer", "zero_grad", LOADER)
_OUTSIDE, _FORWARD, _BACKWARD, _OPTIMIZER, _ZERO_GRAD, _IN_LOADER = range(len(PHASES))


def is_pytorch(rows: Executions) -> bool:
    """Say whether ops are PyTorch's."""
    return bool(having(rows.strings, rows.op_type, lambda op: op.startswith(_NAMESPACES)).any())


def is_of_loader(name: str) -> bool:
    """Return whether an op of this name prepares a batch for the program's loop."""
    return _LOADER.match(name) is not None


def phases(rows: Executions) -> Int8s:
    """Return what each row is part of, as a position in PHASES.

    If nothing is in a module, because the trace has no stacks, what is in no other part is forward.
    """
    known = np.zeros(len(rows.strings.values), dtype=np.int8)
    positions = used(rows.name)
    for position in positions:
        known[position] = _phase(rows.strings[position])
    if not (known[positions] == _FORWARD).any():
        outside = np.array(positions)[known[positions] == _OUTSIDE]
        known[outside] = _FORWARD
    found: Int8s = known[rows.name]
    return found


def _phase(name: str) -> int:
    if name.startswith("gradients/"):
        return _BACKWARD
    update = _UPDATE.match(name)
    if update is not None:
        return _OPTIMIZER if update["call"] == "step" else _ZERO_GRAD
    if is_of_loader(name):
        return _IN_LOADER
    return _FORWARD if "/" in name else _OUTSIDE
