"""Find the line of the job's code that an op comes from; every report uses this answer.

It is the innermost line of the job in the op's stack trace, or of a library if no line is the
job's. A gradient comes from the line of its forward op, not from the line that computes all
gradients. An op that the graph lacks, such as one made by XLA, comes from the op whose name is its
scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tfprobe.analysis.core.names import BACKWARD, RUNTIME, by_layer, scopes_around
from tfprobe.profile.graph import Frame, Node, Shape, TracedLoop, is_of_library, known_name

# TensorFlow 1, and functions differentiated as a whole: "gradients/<forward op>_grad/".
_GRADIENTS = re.compile(r"(?<![^/])gradients(?:_\d+)?/")
_GRADIENT_SUFFIX = re.compile(r"_grad(?:_\d+)?/")
# A GradientTape: "gradient_tape/<scope of the forward op>/"; most ops have a scope of their own.
_TAPE = re.compile(r"(?<![^/])gradient_tape/")


def innermost(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost line of the job among frames, or of a library if there is none."""
    own = [frame for frame in frames if not is_of_library(frame.file)]
    known = own or frames
    return known[-1] if known else None


class SourceLines:
    """Finds the lines that ops come from, by the names of all nodes."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        """Take the nodes as they are: only few of them will be looked up."""
        self._nodes = nodes
        self._in_scope: dict[str, list[Node]] | None = None

    def line(self, name: str) -> Frame | None:
        """Return the line of the job that an op comes from, or of a library if there is none."""
        return innermost(self.trace(name))

    def trace(self, name: str) -> tuple[Frame, ...]:
        """Return the stack trace of an op, or of the op it derives from, outermost frame first."""
        forward = self.forward(name)
        if forward is not None and forward.trace:
            return forward.trace
        for known in (name, *scopes_around(name)):
            node = self._nodes.get(known)
            if node is not None and node.trace:
                return node.trace
        return ()

    def forward(self, name: str) -> Node | None:
        """Return the forward op of a gradient; None for other ops, or where it is not known.

        For gradients of gradients, it is the op whose own name has no marker of gradients.
        """
        found = None
        while (node := self._differentiated(name)) is not None:
            found, name = node, node.name
        return found

    def _differentiated(self, name: str) -> Node | None:
        for scope in _GRADIENTS.finditer(name):
            path = name[scope.end() :]
            for suffix in reversed([*_GRADIENT_SUFFIX.finditer(path)]):
                node = self._nodes.get(path[: suffix.start()])
                if node is not None:
                    return node
        tape = _TAPE.search(name)
        return None if tape is None else self._taped(name, name[tape.end() :])

    def _taped(self, name: str, path: str) -> Node | None:
        """Return the op that a tape differentiated under this path."""
        for scope in scopes_around(path):
            if scope in self._nodes:
                return self._nodes[scope]
        gradient = self._nodes.get(name)
        if gradient is None:
            return None
        alike = [
            node
            for node in self._of_scope(path.rpartition("/")[0])
            if len(node.op) < len(gradient.op) and gradient.op.startswith(node.op)
        ]
        if len(alike) > 1:  # several ReLUs of one layer, say: it reads the output of its own
            read = set(gradient.inputs.values())
            alike = [node for node in alike if node.name in read]
        return alike[0] if len(alike) == 1 else None

    def _of_scope(self, scope: str) -> list[Node]:
        if self._in_scope is None:
            self._in_scope = {}
            for node in self._nodes.values():
                if _TAPE.search(node.name) is None:
                    self._in_scope.setdefault(node.name.rpartition("/")[0], []).append(node)
        return self._in_scope.get(scope, [])


By = Literal["op", "layer", "line"]
BYS: tuple[By, ...] = ("op", "layer", "line")
NO_LAYER = "(no layer)"
NO_LINE = "(no line known)"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an op comes from. `frame` is its line (see SourceLines), None where not known."""

    op: str
    layer: str
    frame: Frame | None

    def label(self, by: By) -> str:
        """Return the key that an op is grouped by: op, layer or line."""
        if by == "op":
            return self.op
        if by == "layer":
            return self.layer
        return NO_LINE if self.frame is None else f"{self.frame.file}:{self.frame.line}"


def shown(label: str, by: str) -> str:
    """Return a label short enough for a table: a line of code without its folders."""
    return label.rpartition("/")[2] if by == "line" else label


class Origins:
    """Finds where ops come from, by the names under which they ran; answers are cached."""

    def __init__(self, loops: Iterable[TracedLoop]) -> None:
        """Index the nodes of these loops; of two with the same name, the first counts."""
        self._nodes: dict[str, Node] = {}
        self._layers: dict[str, str] = {}
        self._known: dict[str, Origin] = {}
        self._shapes: dict[tuple[str, int], Shape] = {}
        for loop in loops:
            self._shapes |= loop.shapes
            for node, placed in zip(loop.graph.nodes, by_layer(loop.graph).nodes, strict=True):
                if self._nodes.setdefault(node.name, node) is node:
                    self._layers[node.name] = _layer(placed.name)
        self._lines = SourceLines(self._nodes)

    @property
    def shapes(self) -> Mapping[tuple[str, int], Shape]:
        """Return the shapes of outputs at run time."""
        return self._shapes

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Return all nodes, by name."""
        return self._nodes

    def of(self, name: str) -> Origin:
        """Return where the op of this name comes from."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._find(name)
        return known

    def node(self, name: str) -> Node | None:
        """Return the node that ran under this name."""
        return self._nodes.get(known_name(name, self._nodes))

    def _find(self, name: str) -> Origin:
        op = known_name(name, self._nodes)
        layer = self._layers.get(op) or _layer(op)
        return Origin(op, layer, self._lines.line(op))


def _layer(placed: str) -> str:
    """Return the layer of a name whose gradients were moved below their layers."""
    scope = placed.rpartition("/")[0]
    inside = scope.split("/")
    if inside[0] == RUNTIME:
        return NO_LAYER
    if BACKWARD in inside:
        scope = "/".join(inside[: inside.index(BACKWARD)])
    return scope or NO_LAYER
