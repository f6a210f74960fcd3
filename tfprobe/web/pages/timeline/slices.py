"""One slice of a timeline: what it is, how long it took, what launched it, which code made it."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np

from tfprobe.analysis.core.collective_ops import launches
from tfprobe.analysis.core.source_lines import SourceLines
from tfprobe.analysis.timeline.slice_categories import CATEGORIES, loop_of
from tfprobe.analysis.timeline.tracks import StepTracks, TrackSource
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.capture_tables import Executions, Place, SpanKind
from tfprobe.profile.graph import Node, Shape, known_name
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, Int32s, Strings
from tfprobe.profile.torch_call import TorchCall
from tfprobe.report.documents.document import Document
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.timeline.step_timeline import SOURCES, ids, laid_out, share
from tfprobe.web.params import Params

MOST_CHARACTERS = 2_000
_MOST_SHAPES = 20
_MOST_FRAMES = 12


def document(run: OpenRun, question: Params) -> Document:
    """Return what is known of the slice `slice=` of a capture.

    Raises NoAnswer where there is none.
    """
    laid = laid_out(run, question)
    source, number = _named(question.text("slice"))
    matching = (laid.slices.source == source) & (laid.slices.number == number)
    at = np.flatnonzero(matching).tolist()
    if not at:
        raise NoAnswer("This step has no such slice, or it lies too deep to be drawn.")
    place = at[0]
    start_ns, end_ns = int(laid.slices.start_ns[place]), int(laid.slices.end_ns[place])
    track = next(each for each in laid.tracks if each.first <= place < each.last)
    base: Document = {
        "slice": question.text("slice"),
        "group": track.group,
        "track": track.name,
        "lane": _cut(track.lane),
        "row": int(laid.slices.row[place]),
        "category": CATEGORIES[int(laid.slices.category[place])]._asdict(),
        "start_ns": start_ns,
        "duration_ns": end_ns - start_ns,
        "share_ratio": share(end_ns - start_ns, laid.capture),
    }
    if source == TrackSource.ROWS:
        return base | _of_row(run, laid, number)
    if source == TrackSource.SPANS:
        return base | _of_span(run.profile, laid, number)
    other = laid.others[number]
    return base | {"name": _cut(other.name), "detail": _cut(other.detail)}


def _named(text: str) -> tuple[int, int]:
    table, number = SOURCES.find(text[:1]), text[1:]
    if not text or table < 0 or not (number.isascii() and number.isdecimal()) or len(number) > 18:
        raise NoAnswer("A slice is named by a letter and a number, such as r17.")
    return table, int(number)


def _of_row(run: OpenRun, laid: StepTracks, number: int) -> Document:
    rows, at = run.profile.executions, int(laid.row_at[number])
    name = rows.strings[rows.name[at]]
    return {
        "name": _cut(name),
        "op": _cut(rows.strings[rows.op_type[at]]),
        "device": _cut(rows.strings[rows.device[at]]),
        "place": Place(int(rows.place[at])).name.lower(),
        "is_background": bool(rows.background[at]),
        "detail": _cut(rows.strings[rows.detail[at]]),
        # 0 where the recording has no records of memory.
        "bytes": int(rows.bytes[at]) or None,
        "output_bytes": int(rows.output_bytes[at]) or None,
        "linked": _linked(run.profile, laid, rows, number),
        **_node(run, laid, name),
    }


def _of_span(profile: Profile, laid: StepTracks, number: int) -> Document:
    spans, at = profile.spans, int(laid.span_at[number])
    return {
        "name": _cut(spans.strings[spans.name[at]]),
        "detail": _cut(spans.strings[spans.detail[at]]),
        "kind": SpanKind(int(spans.kind[at])).name.lower(),
        "is_background": bool(spans.background[at]),
        "bytes": int(spans.bytes[at]) or None,
        "linked": _launched(profile, laid, number),
    }


def _linked(profile: Profile, laid: StepTracks, rows: Executions, number: int) -> list[Document]:
    """Return what belongs to an execution: the call that launched it, the op that it ran for."""
    mine, spans = rows.at(laid.row_at), profile.spans.at(laid.span_at)
    found = []
    if mine.place[number] != Place.HOST:
        call = int(launches(mine, spans)[number])
        if call >= 0:
            found.append(_link("launched by", f"s{call}", spans.strings[spans.name[call]]))
    if mine.correlation[number] < 0:
        found += _differentiating(mine, number)
    same = np.flatnonzero((mine.name == mine.name[number]) & (mine.place != mine.place[number]))
    if mine.name[number]:
        word = "ran as" if mine.place[number] == Place.HOST else "is of"
        for at in same[:_MOST_SHAPES].tolist():
            text = mine.strings[mine.detail[at]] or mine.strings[mine.op_type[at]]
            found.append(_link(word, f"r{at}", text))
    return found


def _differentiating(mine: Executions, number: int) -> list[Document]:
    """Return the op that differentiates another, or the one that it differentiates."""
    others = np.flatnonzero(mine.correlation == mine.correlation[number])
    found = []
    for at in others[others != number][:_MOST_SHAPES].tolist():
        is_later = mine.start_ns[at] > mine.start_ns[number]
        word = "differentiated by" if is_later else "differentiates"
        found.append(_link(word, f"r{at}", mine.strings[mine.name[at]]))
    return found


def _launched(profile: Profile, laid: StepTracks, number: int) -> list[Document]:
    spans, rows = profile.spans, profile.executions
    correlation = int(spans.correlation[laid.span_at[number]])
    if not correlation:
        return []
    mine = np.flatnonzero(rows.correlation[laid.row_at] == correlation)[:_MOST_SHAPES].tolist()
    names = [rows.strings[rows.name[laid.row_at[at]]] for at in mine]
    return [_link("launched", f"r{at}", name) for at, name in zip(mine, names, strict=True)]


def _link(relation: str, slice_id: str, name: str) -> Document:
    return {"relation": relation, "slice": slice_id, "name": _cut(name)}


def _node(run: OpenRun, laid: StepTracks, name: str) -> Document:
    """Return scope, shapes and code of the op that ran, as far as the graph knows it."""
    nothing: Document = {"node": None, "scope": "", "inputs": [], "outputs": [], "code": []}
    loop = loop_of(run.profile, laid.capture)
    found = Missing("its work is unknown") if loop is None else run.sampled(loop, with_shapes=True)
    if isinstance(found, Missing):
        return nothing
    nodes = run.made(
        ("nodes", run.profile.loops.index(found.loop)),
        lambda: {node.name: node for node in found.graph.nodes},
    )
    known = known_name(name, nodes)
    node = nodes.get(known)
    if node is None:
        return nothing
    return {
        "node": _cut(known),
        "scope": _cut(known.rpartition("/")[0]),
        "has_graph": found.has_graph,
        "inputs": _arguments(node.call)
        if node.call is not None
        else [
            _shape(producer, node.sources.get(at, 0), nodes, found.shapes)
            for at, producer in sorted(node.inputs.items())[:_MOST_SHAPES]
        ],
        "outputs": [
            _shape(known, at, nodes, found.shapes)
            for at in range(min(max(len(node.output_shapes), len(node.dtypes), 1), _MOST_SHAPES))
        ],
        "code": [
            {"file": _cut(frame.file), "line": frame.line, "function": _cut(frame.function)}
            for frame in SourceLines(nodes).trace(known)[-_MOST_FRAMES:]
        ],
    }


def _arguments(call: TorchCall) -> list[Document]:
    """Return the arguments of an op of PyTorch that are tensors."""
    return [
        {"name": f"argument {at}", "shape": list(sizes), "type": kind or None}
        for at, (sizes, kind) in enumerate(zip_longest(call.sizes, call.types, fillvalue=""))
        if sizes
    ][:_MOST_SHAPES]


def _shape(name: str, output: int, nodes: dict[str, Node], ran: Any) -> Document:
    """Return one output of a node. Any: see SampledWork.shapes."""
    node = nodes.get(name)
    shape: Shape | None = ran.get((name, output))
    if shape is None and node is not None:
        shape = node.output_shapes.get(output)
    types = node.dtypes if node is not None else ()
    return {
        "name": _cut(name if not output else f"{name}:{output}"),
        "shape": None if shape is None else list(shape),
        "type": (types[output] if output < len(types) else types[0]) if types else None,
    }


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


MOST_FOUND = 2_000


def search_document(run: OpenRun, question: Params) -> Document:
    """Return how many slices have `text=`, how long they take in all, and the first by start.

    Raises NoAnswer without a text.
    """
    if not question.text("text"):
        raise NoAnswer("Name the text to look for.")
    laid, profile = laid_out(run, question), run.profile
    wanted = question.text("text").casefold()
    rows, spans = profile.executions, profile.spans
    in_rows = _having(rows.strings, wanted)
    in_spans = _having(spans.strings, wanted) if spans.strings is not rows.strings else in_rows
    matching = np.zeros(len(laid.slices.row), dtype=np.bool_)
    number = laid.slices.number
    of_rows = laid.slices.source == TrackSource.ROWS
    row = laid.row_at[number[of_rows]]
    matching[of_rows] = _any(in_rows, rows.name[row], rows.op_type[row], rows.detail[row])
    of_spans = laid.slices.source == TrackSource.SPANS
    span = laid.span_at[number[of_spans]]
    matching[of_spans] = _any(in_spans, spans.name[span], spans.detail[span])
    of_others = np.flatnonzero(laid.slices.source == TrackSource.OTHERS)
    matching[of_others] = [
        wanted in laid.others[at].name.casefold() for at in number[of_others].tolist()
    ]
    chosen = np.flatnonzero(matching)
    length_ns = laid.slices.end_ns[chosen] - laid.slices.start_ns[chosen]
    first = chosen[np.argsort(laid.slices.start_ns[chosen], kind="stable")][:MOST_FOUND]
    return {
        "count": len(chosen),
        "total_ns": int(length_ns.sum()),
        "left_out": len(chosen) - len(first),
        "slices": ids(laid, first),
        "row": laid.slices.row[first].tolist(),
        "start_ns": laid.slices.start_ns[first].tolist(),
        "length_ns": (laid.slices.end_ns[first] - laid.slices.start_ns[first]).tolist(),
    }


def _having(strings: Strings, wanted: str) -> Flags:
    texts = strings.values
    return np.fromiter((wanted in text.casefold() for text in texts), np.bool_, len(texts))


def _any(having: Flags, *columns: Int32s) -> Flags:
    matching = having[columns[0]]
    for column in columns[1:]:
        matching = matching | having[column]
    return matching
