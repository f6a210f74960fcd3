"""tf.profiler's Python interface: `Profiler`, `profile` and `advise`. Prints what they print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfprobe.analysis.ops.flops.engine import float_ops
from tfprobe.errors import NoAnswer, UnreadableInput, UsageError
from tfprobe.export.profile_proto import profile_proto
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.printable import printable, printable_lines
from tfprobe.profile.graph import Frame, Graph, Node
from tfprobe.profile.reader.shapes import Shapes, filled, run_shapes
from tfprobe.profile.records import GraphProfile
from tfprobe.tfprof import results
from tfprobe.tfprof.advice import advice_text
from tfprobe.tfprof.advice import advise as checked
from tfprobe.tfprof.live_graph import TRAINABLE_VARIABLES, LiveFrame, LiveGraph, live_graph
from tfprobe.tfprof.op_log import own_op_log, serialized
from tfprobe.tfprof.option_builder import ProfileOptionBuilder
from tfprobe.tfprof.options import Options, Output, lines, options_of
from tfprobe.tfprof.report import VIEWS, answer, body, explanations

# The checkers that `advise` runs by default; none has options.
ALL_ADVICE: dict[str, dict[str, str]] = {
    "ExpensiveOperationChecker": {},
    "AcceleratorUtilizationChecker": {},
    "JobChecker": {},
    "OperationChecker": {},
}
_OPTIONS = "\n=========================Options=============================\n"
_REPORT = "\n==================Model Analysis Report======================\n"
_END = "\n======================End of Report==========================\n"


class Profiler:
    """Gathers steps of a graph and shows them. Any number of them may live at once.

    Each `profile_...` takes a dict of options, prints or writes the report as they say, and returns
    it as a message. What the profile cannot answer, such as a step it does not have, is told on
    stderr, and the message is empty.
    """

    def __init__(self, graph: Any = None, op_log: Any = None) -> None:
        """Profile `graph`, or TensorFlow's default one, with what an OpLogProto says of its ops.

        Raises UsageError for a graph that is none.
        """
        self._gathering = Gathering(own_op_log(op_log).SerializeToString())
        _add_graph(self._gathering, graph)

    def add_step(self, step: int, run_meta: Any, *, graph: Any = None) -> None:
        """Add the RunMetadata of a run as `step`, to what was added as that step before.

        `graph` is the one that ran, if not the profiler's. Metadata without statistics is told on
        stderr and left out. Raises UsageError for what is no RunMetadata.
        """
        content = _statistics(run_meta)
        if not content:
            _tell(
                f"Step {step} is left out: its RunMetadata has no statistics. "
                "Run it with RunOptions(trace_level=RunOptions.FULL_TRACE)."
            )
            return
        if graph is not None:
            self._gathering.add_graph(LiveGraph(graph))
        self._gathering.add_step(int(step), content)

    def profile_graph(self, options: Mapping[str, Any]) -> Any:
        """Show nodes along the edges of the graph; return a GraphNodeProto."""
        return self.profile_view("graph", options)

    def profile_name_scope(self, options: Mapping[str, Any]) -> Any:
        """Show nodes by name scope; return a GraphNodeProto."""
        return self.profile_view("scope", options)

    def profile_operations(self, options: Mapping[str, Any]) -> Any:
        """Show nodes by op; return a MultiGraphNodeProto."""
        return self.profile_view("op", options)

    def profile_python(self, options: Mapping[str, Any]) -> Any:
        """Show nodes by the lines of Python that made them; return a MultiGraphNodeProto."""
        return self.profile_view("code", options)

    def advise(self, options: Mapping[str, Any] | None = None) -> Any:
        """Print what the named checkers find, or all; return an AdviceProto."""
        chosen = ALL_ADVICE if options is None else options
        return _advise(self._gathering.profile(with_code=True), chosen)

    def serialize_to_string(self) -> bytes:
        """Return the whole profile as a ProfileProto, which `tfprobe tfprof` and tfprof load."""
        return profile_proto(self._gathering.profile(with_code=True))

    @property
    def coverage_ratio(self) -> float:
        """The share of the graph's nodes that the steps have statistics of."""
        return self._gathering.coverage_ratio()

    def profile_view(self, view: str, options: Mapping[str, Any]) -> Any:
        """Show one of the views scope, graph, op and code; return its message.

        Raises UsageError for another view, and for options of the wrong type.
        """
        _check_view(view)
        requested, remarks = options_of(options)
        found = self._gathering.profile(with_code=view == "code")
        return _report(found, view, requested, remarks)


def profile(
    graph: Any = None,
    run_meta: Any = None,
    op_log: Any = None,
    cmd: str = "scope",
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Show one view of a graph, or of TensorFlow's default one, and of one run of it.

    `cmd` is scope, graph, op or code; `options` are a dict as ProfileOptionBuilder makes it, by
    default that of trained parameters. Returns a GraphNodeProto for scope and graph, and a
    MultiGraphNodeProto for op and code. The run is step 0. Raises UsageError for what is wrong.
    """
    _check_view(cmd)
    if options is None or isinstance(options, int):  # 0 is TensorFlow's own default
        options = ProfileOptionBuilder.trainable_variables_parameter()
    requested, remarks = options_of(options)
    found = _once(graph, run_meta, op_log).profile(with_code=cmd == "code")
    return _report(found, cmd, requested, remarks)


def advise(
    graph: Any = None, run_meta: Any = None, options: Mapping[str, Any] | None = ALL_ADVICE
) -> Any:
    """Print what the named checkers find in a graph and a run; return an AdviceProto."""
    found = _once(graph, run_meta, None).profile(with_code=True)
    return _advise(found, options or ALL_ADVICE)


def _once(graph: Any, run_meta: Any, op_log: Any) -> Gathering:
    gathering = Gathering(own_op_log(op_log).SerializeToString(), fills_shapes=True)
    _add_graph(gathering, graph)
    if run_meta is not None and (content := _statistics(run_meta)):
        gathering.add_step(0, content)
    return gathering


def _add_graph(gathering: Gathering, graph: Any) -> None:
    live = live_graph(graph)
    if live is None:
        _tell(
            "There is no graph: TensorFlow runs eagerly here. Give one, such as that of a function."
        )
        return
    gathering.add_graph(live)


def _statistics(run_meta: Any) -> bytes:
    """Return the RunMetadata of a run as bytes, none where it says nothing about the run."""
    content = serialized(run_meta, "run_meta")
    if not hasattr(run_meta, "step_stats"):
        raise UsageError(f"run_meta takes a RunMetadata, not {type(run_meta).__name__}.")
    return content if run_meta.HasField("step_stats") else b""


def _check_view(view: str) -> None:
    if view not in VIEWS:
        raise UsageError(f"There is no cmd {view!r}.", hint=f"cmd is {', '.join(VIEWS)}.")


def _report(profile: GraphProfile, view: str, requested: Options, remarks: Iterable[str]) -> Any:
    for remark in remarks:
        _tell(remark)
    is_printed = requested.output.kind == "stdout"
    written = Options(requested.choice, Output("none")) if is_printed else requested
    try:
        found = answer(profile, view, written)
    except NoAnswer as exc:
        _tell(str(exc))
        return results.empty(view)
    for remark in found.remarks:
        _tell(remark)
    if is_printed and found.viewed is not None:
        text = body(profile, found.viewed, requested.choice, _tell)
        explained = f"\nDoc:\n{explanations(view, requested.choice)}Profile:\n{text}"
        shown = f"{_OPTIONS}{lines(requested)}{_REPORT}{explained}{_END}"
        sys.stdout.write(printable_lines(shown))
    elif requested.output.kind in ("pprof", "timeline"):
        sys.stdout.write(printable_lines(found.text))
    if found.viewed is None:
        return results.empty(view)
    return results.message(profile, found.viewed)


def _advise(profile: GraphProfile, options: Mapping[str, Any]) -> Any:
    advice = checked(profile, options)
    for remark in advice.remarks:
        _tell(remark)
    sys.stdout.write(printable_lines(advice_text(advice)))
    return results.advice(advice.reports)


def _tell(remark: str) -> None:
    sys.stderr.write(f"tfprobe: {printable(remark)}\n")


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
        details = _NodeDetails(float_ops(whole), self._trained(), self._traces if with_code else {})
        return replace(found, graph=Graph(tuple(map(details.annotated, nodes))))

    def coverage_ratio(self) -> float:
        """Return the share of nodes that the steps have statistics of, as of the last step."""
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
class _NodeDetails:
    """What is known about nodes besides their definitions."""

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
