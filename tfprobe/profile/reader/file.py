"""Read a single file of any supported kind as if it were the traced step of a loop."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.formats import chrome_trace, kineto, profile_proto, run_metadata, xspace
from tfprobe.formats.chrome_trace import parse_trace_events
from tfprobe.formats.graph_profile import graph_nodes
from tfprobe.formats.gzipped import unpacked
from tfprobe.formats.schema import parse, parse_either
from tfprobe.formats.trace import UNKNOWN_ORIGIN, Trace, TraceOrigin
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import Node, TracedLoop
from tfprobe.profile.profile import Capture, Loop, Process, Profile, Run
from tfprobe.profile.reader.service_trace import (
    NO_DURATIONS,
    NO_STEPS,
    in_steps,
    recent_of,
    times_of,
)
from tfprobe.profile.reader.traced_steps import (
    instructions_of,
    join,
    with_programs,
    with_what_ran,
)
from tfprobe.profile.records import GraphProfile, Record
from tfprobe.profile.tables import Columns, Interner, TableBuilder, int64s

FILE_KIND = "file"
_NS_PER_US = 1000


def sampled_file(path: Path, *, with_shapes: bool = False) -> TracedLoop:
    """Return the steps in a file: RunMetadata, XSpace, ProfileProto, a timeline or Kineto's trace.

    The kind is recognized by the content, which may be compressed with gzip. A ProfileProto may
    hold several steps. `with_shapes` includes the shapes of what ran.

    Raises UnreadableInput if it is none of these, and says what it is if that can be recognized.
    """
    try:
        return _sampled(path.name, *contents(path), with_shapes=with_shapes)
    except UnreadableInput as exc:
        raise UnreadableInput(f"{path}: {exc.problem}.", hint=exc.hint) from exc


def file_profile(path: Path) -> Profile:
    """Return everything in a file, its steps as captures, for views that need more than ops.

    Accepts what `sampled_file` accepts. A ProfileProto is divided into the steps that the profile
    itself has; a file without steps counts as one step.

    Raises UnreadableInput as `sampled_file` does.
    """
    return whole_file(path)[0]


def whole_file(path: Path) -> tuple[Profile, TracedLoop]:
    """Return everything in a file, and its steps with their graph and the shapes of what ran.

    Raises UnreadableInput as `sampled_file` does.
    """
    try:
        return _whole(path, *contents(path))
    except UnreadableInput as exc:
        raise UnreadableInput(f"{path}: {exc.problem}.", hint=exc.hint) from exc


def _whole(path: Path, kind: FileKind, content: bytes) -> tuple[Profile, TracedLoop]:
    if kind is FileKind.PROFILE:
        found = _steps(path.name, profile_proto.graph_profile(content))
        return _alone(path, found.captures, found.executions), found
    profile = _profile(path, kind, content)
    rows = profile.executions
    nodes = _partition_nodes(content) if kind is FileKind.RUN_METADATA else []
    # As for a run: work that prepares later steps is not part of a step.
    loop, foreground = profile.loops[0], rows.only(~rows.background)
    instructions = profile.nodes.get(0) or instructions_of(profile.captures, lambda _: content)
    found = join(loop, profile.captures, foreground, _by_name(nodes), instructions=instructions)
    if kind is FileKind.XSPACE:
        found = with_what_ran(found, traces=[content])
        found = with_programs(found, lambda _: content)
    if kind is FileKind.RUN_METADATA:
        found = with_what_ran(found, steps=[content])
    return profile, found


def _sampled(name: str, kind: FileKind, content: bytes, *, with_shapes: bool) -> TracedLoop:
    if kind is FileKind.KINETO:
        return _whole(Path(name), kind, content)[1]
    if kind is FileKind.TIMELINE:
        return _one_step(name, chrome_trace.rows(content), [])
    if kind is FileKind.XSPACE:
        trace = xspace.read(content, with_spans=False)
        if not len(trace.rows):
            raise UnreadableInput(trace.why_empty)
        if len(trace.markers) > 1:
            # The same steps as everything else that reads the file has.
            return _whole(Path(name), kind, content)[1]
        found = _one_step(name, trace.rows, [], programs=trace.programs, content=content)
        if with_shapes:
            found = with_programs(with_what_ran(found, traces=[content]), lambda _: content)
        return found
    if kind is FileKind.RUN_METADATA:
        found = _one_step(name, run_metadata.rows(content), _partition_nodes(content))
        return with_what_ran(found, steps=[content]) if with_shapes else found
    return _steps(name, profile_proto.graph_profile(content))


def _profile(path: Path, kind: FileKind, content: bytes) -> Profile:
    steps, trace = in_steps(_trace(kind, content))
    if not trace.tells_of_steps:
        raise UnreadableInput(trace.why_empty)
    captures = [
        replace(
            _capture(path.name, index, step.number, trace.rows),
            start_ns=step.start_ns,
            duration_ns=step.end_ns - step.start_ns,
            programs=trace.programs,
        )
        for index, step in enumerate(steps)
    ]
    profile = _alone(path, captures, trace.rows, trace.origin)
    nodes = {0: trace.nodes} if trace.nodes else {}
    return replace(profile, spans=trace.spans, allocations=trace.allocations, nodes=nodes)


def _alone(
    path: Path,
    captures: Sequence[Capture],
    rows: Executions,
    origin: TraceOrigin = UNKNOWN_ORIGIN,
) -> Profile:
    """Return a profile that contains nothing but captures."""
    untold = Missing("a single file does not contain it")
    process = Process(
        index=0,
        folder="",
        host=origin.host,
        pid=0,
        state="unknown",
        argv=(),
        python=untold,
        tensorflow=untold,
        rank=origin.rank,
        world=origin.world,
        role=None,
        started_unix_ns=0,
        devices=untold,
        hooks=untold,
        captures=len(captures),
        unix_minus_monotonic_ns=0,
    )
    loop = replace(
        _loop(path.name, len(captures)), times=times_of(captures), recent=recent_of(captures)
    )
    return Profile(
        run=Run(path.name, str(path), untold, untold, "unknown"),
        processes=(process,),
        interpreters=(),
        loops=(loop,),
        captures=tuple(captures),
        executions=rows,
        problems=(),
    )


def _trace(kind: FileKind, content: bytes) -> Trace:
    if kind is FileKind.XSPACE:
        return xspace.read(content)
    if kind is FileKind.RUN_METADATA:
        return run_metadata.read(content)
    if kind is FileKind.KINETO:
        return kineto.read(content)
    return chrome_trace.read(parse_trace_events(content))


def _partition_nodes(content: bytes) -> list[Node]:
    """Return the nodes of the executed graphs that a RunMetadata contains."""
    graphs = parse(content, "tfprobe.step_stats.RunMetadata").partition_graphs
    return [node for graph in graphs for node in graph_nodes(graph.SerializeToString())]


def _one_step(
    name: str,
    rows: Executions,
    nodes: Iterable[Node],
    *,
    programs: tuple[tuple[str, int], ...] = (),
    content: bytes = b"",
) -> TracedLoop:
    """Return a file as one step; `content` is that of an XSpace in which programs ran."""
    if not len(rows):
        raise UnreadableInput("it holds no execution of an op")
    captures = [replace(_capture(name, 0, 0, rows), programs=programs)]
    instructions = instructions_of(captures, lambda _: content)
    return join(_loop(name, 1), captures, rows, _by_name(nodes), instructions=instructions)


def _steps(name: str, profile: GraphProfile) -> TracedLoop:
    """Return the steps of a tfprof profile, whose times are exact to the µs."""
    if not profile.steps:
        raise UnreadableInput("a ProfileProto without a step, which says nothing about time")
    builder, captures = TableBuilder(Executions, Interner()), []
    for number, step in enumerate(profile.steps):
        rows = _record_rows(profile, step, builder.interner)
        captures.append(_capture(name, number, step, rows))
        builder.add(number, rows)
    return join(
        _loop(name, len(captures)), captures, builder.table(), _by_name(profile.graph.nodes)
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
        loop=0,
        step=step,
        file=file,
        level="unknown",
        start_ns=start_ns,
        duration_ns=int(ends_ns.max()) - start_ns if len(rows) else 0,
        plain_ns=Missing("a file by itself has no other steps"),
    )


def _loop(name: str, steps: int) -> Loop:
    """Return a loop for a file: of its steps, only the traced ones are known."""
    return Loop(
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
        optimizer_steps=Missing("a single file does not contain it"),
        times=NO_DURATIONS,
        gaps=NO_DURATIONS,
        recent=NO_STEPS,
    )


class FileKind(Enum):
    """The kind of a file's content."""

    TIMELINE = "JSON in the trace event format"
    KINETO = "trace of PyTorch's profiler"
    XSPACE = "XSpace"
    RUN_METADATA = "RunMetadata"
    PROFILE = "ProfileProto"


class Contents(NamedTuple):
    """The uncompressed content of a file, and its kind."""

    kind: FileKind
    content: bytes


def contents(path: Path) -> Contents:
    """Return the content of a file, which may be compressed with gzip.

    Raises UnreadableInput if it is not a recording, and says what it is if that can be recognized.
    """
    try:
        content = unpacked(path.read_bytes())
    except OSError as exc:
        raise UnreadableInput(f"it cannot be read: {exc.strerror or exc}") from exc
    return Contents(_kind(path, content), content)


def _kind(path: Path, content: bytes) -> FileKind:
    if not content:
        raise UnreadableInput("the file is empty")
    if _is_json(content):
        return FileKind.KINETO if kineto.is_kineto(content) else FileKind.TIMELINE
    if xspace.holds_planes(content):
        return FileKind.XSPACE
    if _holds_steps(content):
        return FileKind.RUN_METADATA
    if _holds_nodes(content):
        return FileKind.PROFILE
    if _is_graph(content):
        hint = f"A graph by itself: `tfprobe tfprof --graph_path={path} scope -select params`."
        raise UnreadableInput("a GraphDef, which says nothing about time", hint=hint)
    raise UnreadableInput(
        "neither a RunMetadata, nor an XSpace (xplane.pb), a ProfileProto or a timeline in JSON"
    )


_OPENING = re.compile(rb"\s*[{\[]")
_LOOKED_AT_BYTES = 2**20


def _is_json(content: bytes) -> bool:
    """Return whether this is text that begins like JSON; a binary message may begin so, too."""
    if _OPENING.match(content) is None or b"\0" in content:
        return False
    try:
        # The last character may be cut.
        codecs.getincrementaldecoder("utf-8")().decode(content[:_LOOKED_AT_BYTES])
    except UnicodeDecodeError:
        return False
    return True


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
