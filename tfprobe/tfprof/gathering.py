"""Keep what a Profiler is given, and read it when a view asks.

A step costs the job no more than its RunMetadata written to bytes: graphs are asked for their nodes
and their code, and bytes are parsed, only for a view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfprobe.analysis.ops.flops.engine import float_ops
from tfprobe.errors import UnreadableInput
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.profile.graph import Frame, Graph, Node
from tfprobe.profile.reader.shapes import Shapes, filled, run_shapes
from tfprobe.profile.records import GraphProfile
from tfprobe.tfprof.live_graph import TRAINABLE_VARIABLES, LiveFrame, LiveGraph

_NO_TEXT = "none"


@dataclass(slots=True)
class _Watched:
    """A graph, and the version of it that has been read; None for none."""

    graph: LiveGraph
    version: int | None = None


@dataclass(slots=True)
class Gathering:
    """Graphs, steps and an op log; `profile` is what they come to so far.

    What the op log says of an op goes before what we find out ourselves. With `fills_shapes` the
    nodes have the shapes that their outputs had in the steps, where the graph does not know them.
    """

    op_log: bytes = b""
    fills_shapes: bool = False
    _graphs: list[_Watched] = field(default_factory=list)
    _waiting: list[tuple[int, bytes]] = field(default_factory=list)
    _builder: GraphProfileBuilder = field(default_factory=GraphProfileBuilder)
    _shapes: list[Shapes] = field(default_factory=list)
    _traces: dict[str, tuple[Frame, ...]] = field(default_factory=dict)
    _coverage_ratio: float | None = None

    def add_graph(self, graph: LiveGraph) -> None:
        """Add a graph; one that is known already is only looked at again."""
        if not any(watched.graph.is_same(graph) for watched in self._graphs):
            self._graphs.append(_Watched(graph))

    def add_step(self, step: int, run_metadata: bytes) -> None:
        """Add the RunMetadata of a step. It is parsed later."""
        self._waiting.append((step, run_metadata))
        self._coverage_ratio = None

    def profile(self, *, with_code: bool) -> GraphProfile:
        """Return all that was added; the code that made the ops only on request, for it is slow.

        Raises UnreadableInput for metadata that is damaged; the rest is kept for the next view.
        """
        self._read_graphs()
        self._read_steps()
        found = self._builder.profile()
        if with_code:
            self._read_code()
        whole = filled(found.graph, self._shapes)
        nodes = whole.nodes if self.fills_shapes else found.graph.nodes
        told = _Told(float_ops(whole), self._trained(), self._traces if with_code else {})
        return replace(found, graph=Graph(tuple(map(told.annotated, nodes))))

    def coverage_ratio(self) -> float:
        """Return the share of nodes that the steps told about, of those known at the last step."""
        if self._coverage_ratio is None:
            self._read_graphs()
            self._read_steps()
            found = self._builder.profile()
            self._coverage_ratio = found.covered / max(len(found.graph.nodes), 1)
        return self._coverage_ratio

    def _read_graphs(self) -> None:
        for watched in self._graphs:
            version = watched.graph.version
            if version is not None and version == watched.version:
                continue
            self._builder.add_graph(watched.graph.graph_def())
            self._builder.add_op_log(self.op_log)
            watched.version = version

    def _read_steps(self) -> None:
        while self._waiting:
            step, content = self._waiting.pop(0)
            try:
                self._builder.add_step(step, content)
                shapes = run_shapes(content)
                # Most steps are alike.
                if shapes not in self._shapes:
                    self._shapes.append(shapes)
            except UnreadableInput as exc:
                raise UnreadableInput(f"The RunMetadata of step {step} is {exc.problem}.") from exc

    def _read_code(self) -> None:
        for watched in self._graphs:
            for name, frames in watched.graph.frames(but=frozenset(self._traces)):
                self._traces[name] = tuple(map(_frame, frames))

    def _trained(self) -> frozenset[str]:
        return frozenset().union(*(watched.graph.trainable() for watched in self._graphs))


@dataclass(frozen=True, slots=True)
class _Told:
    """What we know of nodes beside their definitions."""

    operations: Mapping[str, int]
    trained: frozenset[str]
    traces: Mapping[str, tuple[Frame, ...]]

    def annotated(self, node: Node) -> Node:
        changes: dict[str, Any] = {}  # Any: the fields of a Node have many types
        if not node.float_ops and self.operations.get(node.name):
            changes["float_ops"] = self.operations[node.name]
        if node.name in self.trained:
            changes["types"] = node.types | {TRAINABLE_VARIABLES}
        if node.trace is None and self.traces.get(node.name):
            changes["trace"] = self.traces[node.name]
        return replace(node, **changes) if changes else node


def _frame(frame: LiveFrame) -> Frame:
    return Frame(frame.file or _NO_TEXT, frame.line, frame.function or _NO_TEXT)
