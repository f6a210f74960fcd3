"""Say of an op which layer it is part of and which line of Python made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tfprobe.analysis.core.name_scopes import BACKWARD, RUNTIME, by_layer
from tfprobe.analysis.core.source_lines import SourceLines
from tfprobe.profile.graph import Frame, Node, SampledWork, Shape, known_name

By = Literal["op", "layer", "line"]
BYS: tuple[By, ...] = ("op", "layer", "line")
NO_LAYER = "(no layer)"
NO_LINE = "(no line known)"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an op comes from. `frame` is its line (see SourceLines), None where nobody knows."""

    op: str
    layer: str
    frame: Frame | None

    def label(self, by: By) -> str:
        """Return what an op counts for, by op, layer or line."""
        if by == "op":
            return self.op
        if by == "layer":
            return self.layer
        return NO_LINE if self.frame is None else f"{self.frame.file}:{self.frame.line}"


def shown(label: str, by: str) -> str:
    """Return a label as a table has room for it: a line of code without the folders of its file."""
    return label.rpartition("/")[2] if by == "line" else label


class Origins:
    """Finds where ops come from, by the names under which they ran; each is looked for once."""

    def __init__(self, works: Iterable[SampledWork]) -> None:
        """Learn the nodes of these works; of two with one name the first is believed."""
        self._nodes: dict[str, Node] = {}
        self._layers: dict[str, str] = {}
        self._known: dict[str, Origin] = {}
        self._shapes: dict[tuple[str, int], Shape] = {}
        for work in works:
            self._shapes |= work.shapes
            for node, placed in zip(work.graph.nodes, by_layer(work.graph).nodes, strict=True):
                if self._nodes.setdefault(node.name, node) is node:
                    self._layers[node.name] = _layer(placed.name)
        self._lines = SourceLines(self._nodes)

    @property
    def shapes(self) -> Mapping[tuple[str, int], Shape]:
        """Return the shapes that outputs had when they ran."""
        return self._shapes

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Return the nodes there are, by name."""
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
    """Return the scope of a name in which gradients stand below their layer."""
    scope = placed.rpartition("/")[0]
    inside = scope.split("/")
    if inside[0] == RUNTIME:
        return NO_LAYER
    if BACKWARD in inside:
        scope = "/".join(inside[: inside.index(BACKWARD)])
    return scope or NO_LAYER
