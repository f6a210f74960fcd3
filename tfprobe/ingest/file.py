"""Read one file from elsewhere as if it were the sampled step of a work, whatever kind it is of."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.ingest import chrome_trace, profile_proto, run_metadata, xspace
from tfprobe.ingest.columns import int64s
from tfprobe.ingest.graph_profile import graph_nodes
from tfprobe.ingest.messages import parse, parse_either
from tfprobe.ingest.sampled import join, with_what_ran
from tfprobe.model.durations import Durations
from tfprobe.model.executions import Executions, Place
from tfprobe.model.graph import Node
from tfprobe.model.profile import Capture, RecentSteps, Work
from tfprobe.model.records import GraphProfile, Record
from tfprobe.model.sampled import SampledWork
from tfprobe.model.strings import Interner
from tfprobe.model.tables import Columns, Int64s, TableBuilder

FILE_KIND = "file"
_NS_PER_US = 1000


def sampled_file(path: Path, *, with_shapes: bool = False) -> SampledWork:
    """Return what a file says of a step: RunMetadata, XSpace, ProfileProto or a timeline's JSON.

    Which of them it is, is told by what is in it; it may be packed by gzip. A ProfileProto may hold
    several steps. `with_shapes` says whether those of what ran are wanted.

    Raises UnreadableInput where it is none of them, and says what it is where that can be told.
    """
    try:
        content = _unpacked(path.read_bytes())
        return _sampled(path, content, with_shapes=with_shapes)
    except OSError as exc:
        raise UnreadableInput(f"{path} cannot be read: {exc.strerror or exc}.") from exc
    except UnreadableInput as exc:
        raise UnreadableInput(f"{path}: {exc.problem}.", hint=exc.hint) from exc


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as exc:
        raise UnreadableInput(f"damaged gzip ({exc})") from exc


def _sampled(path: Path, content: bytes, *, with_shapes: bool) -> SampledWork:
    name = path.name
    if not content:
        raise UnreadableInput("the file is empty")
    if _is_json(content):
        return _one_step(name, chrome_trace.rows(content), [])
    if _holds_planes(content):
        found = _one_step(name, xspace.read(content, with_spans=False).rows, [])
        return with_what_ran(found, traces=[content]) if with_shapes else found
    if _holds_steps(content):
        found = _one_step(name, run_metadata.rows(content), _partition_nodes(content))
        return with_what_ran(found, steps=[content]) if with_shapes else found
    if _holds_nodes(content):
        return _steps(name, profile_proto.graph_profile(content))
    if _is_graph(content):
        hint = f"A graph by itself: `tfprobe tfprof --graph_path={path} scope -select params`."
        raise UnreadableInput("a GraphDef, which says nothing about time", hint=hint)
    raise UnreadableInput(
        "neither a RunMetadata, nor an XSpace (xplane.pb), a ProfileProto or a timeline in JSON"
    )


def _is_json(content: bytes) -> bool:
    """Say whether this is text that begins as JSON does, which a binary message may, too."""
    if content.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _holds_planes(content: bytes) -> bool:
    try:
        planes = parse(content, "tfprobe.xplane.XSpace").planes
    except UnreadableInput:
        return False
    return any(plane.name.startswith("/") and plane.lines for plane in planes)


def _holds_steps(content: bytes) -> bool:
    try:
        devices = parse(content, "tfprobe.step_stats.RunMetadata").step_stats.dev_stats
    except UnreadableInput:
        return False
    return any(device.device and device.node_stats for device in devices)


def _holds_nodes(content: bytes) -> bool:
    try:
        nodes = parse(content, "tfprobe.tfprof.ProfileProto").nodes
    except UnreadableInput:
        return False
    return any(node.name and node.op for node in nodes.values())


def _is_graph(content: bytes) -> bool:
    try:
        nodes = parse_either(content, "tfprobe.graph.GraphDef").node
    except UnreadableInput:
        return False
    return any(node.name and node.op for node in nodes)


def _partition_nodes(content: bytes) -> list[Node]:
    """Return the nodes of the graphs that a RunMetadata brings of what really ran."""
    graphs = parse(content, "tfprobe.step_stats.RunMetadata").partition_graphs
    return [node for graph in graphs for node in graph_nodes(graph.SerializeToString())]


def _one_step(name: str, rows: Executions, nodes: Iterable[Node]) -> SampledWork:
    if not len(rows):
        raise UnreadableInput("it holds no execution of an op")
    return join(_work(name, 1), [_capture(name, 0, 0, rows)], rows, _by_name(nodes))


def _steps(name: str, profile: GraphProfile) -> SampledWork:
    """Return the steps of a tfprof profile; what is known of one is known to the µs."""
    if not profile.steps:
        raise UnreadableInput("a ProfileProto without a step, which says nothing about time")
    builder, captures = TableBuilder(Executions, Interner()), []
    for number, step in enumerate(profile.steps):
        rows = _record_rows(profile, step, builder.interner)
        captures.append(_capture(name, number, step, rows))
        builder.add(number, rows)
    return join(
        _work(name, len(captures)), captures, builder.table(), _by_name(profile.graph.nodes)
    )


def _record_rows(profile: GraphProfile, step: int, interner: Interner) -> Executions:
    columns = Columns(Executions)
    for node, records in zip(profile.graph.nodes, profile.records, strict=True):
        if step in records:
            _add_record(columns, interner, node, records[step])
    return columns.rows(interner)


def _add_record(
    columns: Columns[Executions], interner: Interner, node: Node, record: Record
) -> None:
    position = interner.position
    for place, spans_by_device in (
        (Place.HOST, record.cpu),
        (Place.ACCELERATOR, record.accelerator),
    ):
        for device, spans in spans_by_device.items():
            on_host = place is Place.HOST and len(record.memory) == len(spans)
            memory = record.memory if on_host else ()
            columns.add(
                len(spans),
                device=position(device),
                lane=position(""),
                name=position(node.name),
                op_type=position(node.op),
                place=place,
                start_ns=int64s(span.start_us * _NS_PER_US for span in spans),
                duration_ns=int64s(span.duration_us * _NS_PER_US for span in spans),
                bytes=int64s(use.requested_bytes for use in memory) if memory else 0,
                output_bytes=int64s(use.output_bytes for use in memory) if memory else 0,
            )


def _by_name(nodes: Iterable[Node]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        found.setdefault(node.name, node)
    return found


def _capture(file: str, index: int, step: int, rows: Executions) -> Capture:
    ends_ns = rows.start_ns + rows.duration_ns
    start_ns = int(rows.start_ns.min()) if len(rows) else 0
    return Capture(
        index=index,
        process=0,
        work=0,
        step=step,
        file=file,
        level="unknown",
        start_ns=start_ns,
        duration_ns=int(ends_ns.max()) - start_ns if len(rows) else 0,
        plain_ns=Missing("a file by itself has no other steps"),
    )


def _work(name: str, steps: int) -> Work:
    """Return a work for a file: steps of which nothing is known but what is sampled."""
    unknown = Durations(0, 0, 0, 0, np.zeros(0, dtype=np.int64))
    none: Int64s = np.zeros(0, dtype=np.int64)
    flags = none.astype(np.bool_)
    return Work(
        process=0,
        index=0,
        kind=FILE_KIND,
        name=name,
        thread="",
        executed=steps,
        raised=0,
        sampled=steps,
        retraces=0,
        steps_per_execution=1,
        optimizer_steps=Missing("a file by itself does not tell"),
        times=unknown,
        gaps=unknown,
        recent=RecentSteps(0, none, none, flags, flags),
    )
