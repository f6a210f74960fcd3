"""Find the parts of a step that the program or PyTorch names: modules, backward pass, updates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from tfprobe.formats.kineto.events import Kind, KinetoEvents
from tfprobe.formats.kineto.nesting import NONE, OpNesting
from tfprobe.formats.kineto.python_calls import python_calls
from tfprobe.formats.kineto.python_gaps import python_gaps
from tfprobe.formats.kineto.scopes import Module
from tfprobe.profile.capture_tables import SpanKind, Spans
from tfprobe.profile.tables import Columns, Interner

_LOADER = re.compile(r"enumerate\(DataLoader\)")
_UPDATE = re.compile(r"Optimizer\.(?P<call>step|zero_grad)#(?P<name>.+)\Z", re.DOTALL)
_MODULE = "nn.Module: "
# Which phase of training a section is, "" for none.
_CALLS = {"step": "optimizer", "zero_grad": "zero_grad"}


class _Section(NamedTuple):
    kind: SpanKind
    lane: int
    name: str
    detail: str
    start_ns: int
    end_ns: int
    times: int = 0
    line: int = 0


def add_sections(
    columns: Columns[Spans],
    interner: Interner,
    events: KinetoEvents,
    nesting: OpNesting,
    modules: Mapping[str, Module],
) -> None:
    """Add a span for each of them, and for functions of Python while no op ran.

    `detail` is the phase of training, a loader's iterator, or the line of a function. What a
    function called has one span, as long as all of these calls, whose `identity` is their number,
    and `parent` the line of the function that called.
    """
    found = [
        *_annotations(events),
        *_modules(events, modules),
        *_backward(events, nesting),
        *_python(events, nesting),
    ]
    position = interner.position
    columns.add(
        len(found),
        kind=[section.kind for section in found],
        lane=[position(events.lane_name(section.lane)) for section in found],
        name=[position(section.name) for section in found],
        detail=[position(section.detail) for section in found],
        identity=[section.times for section in found],
        parent=[section.line for section in found],
        start_ns=np.array([section.start_ns for section in found], dtype=np.int64),
        duration_ns=np.array(
            [section.end_ns - section.start_ns for section in found], dtype=np.int64
        ),
    )


def _python(events: KinetoEvents, nesting: OpNesting) -> Iterator[_Section]:
    for gap in python_gaps(events, nesting):
        times_ns = gap.start_ns, gap.end_ns
        yield _Section(SpanKind.PYTHON_GAP, gap.lane, gap.name, gap.source, *times_ns)
    for call in python_calls(events, nesting):
        kind = SpanKind.LOADER_CALLS if call.is_of_loader else SpanKind.PYTHON_CALLS
        times_ns = call.start_ns, call.start_ns + call.total_ns
        yield _Section(kind, call.lane, call.name, call.source, *times_ns, call.times, call.line)


def _annotations(events: KinetoEvents) -> Iterator[_Section]:
    for box in np.flatnonzero(events.kind == Kind.ANNOTATION).tolist():
        text = events.texts[events.name[box]]
        start_ns = int(events.start_ns[box])
        times_ns = start_ns, start_ns + int(events.duration_ns[box])
        lane = int(events.lane[box])
        update = _UPDATE.match(text)
        if _LOADER.match(text):
            # The iterator of a loader with workers waits for them, the other one does the work.
            waits = "MultiProcess" in text
            kind = SpanKind.LOADER_WAIT if waits else SpanKind.LOADER_WORK
            yield _Section(kind, lane, "DataLoader", text.rpartition("#")[2], *times_ns)
        elif update is not None:
            phase = _CALLS[update["call"]]
            yield _Section(SpanKind.SECTION, lane, update["name"], phase, *times_ns)
        else:
            yield _Section(SpanKind.SECTION, lane, text, "", *times_ns)


def _modules(events: KinetoEvents, modules: Mapping[str, Module]) -> Iterator[_Section]:
    is_module = np.array([text.startswith(_MODULE) for text in events.texts], dtype=np.bool_)
    boxes = np.flatnonzero(events.kind == Kind.FRAME)
    boxes = boxes[is_module[events.name[boxes]]] if len(boxes) else boxes
    for box in boxes.tolist():
        start_ns = int(events.start_ns[box])
        end_ns = start_ns + int(events.duration_ns[box])
        name = events.texts[events.name[box]].removeprefix(_MODULE)
        known = modules.get(name)
        if known is not None:
            name = known.path.rpartition(".")[2] or known.class_name
        yield _Section(SpanKind.SECTION, int(events.lane[box]), name, "forward", start_ns, end_ns)


def _backward(events: KinetoEvents, nesting: OpNesting) -> Iterator[_Section]:
    """Yield the backward passes: outermost ops of a thread in a row that are of one."""
    open_section: _Section | None = None
    for box in nesting.order.tolist():
        if nesting.parent[box] != NONE:
            continue
        lane = int(events.lane[box])
        if open_section is not None and (lane != open_section.lane or not nesting.is_backward[box]):
            yield open_section
            open_section = None
        if nesting.is_backward[box]:
            start_ns = int(events.start_ns[box])
            begun_ns = start_ns if open_section is None else open_section.start_ns
            end_ns = start_ns + int(events.duration_ns[box])
            open_section = _Section(
                SpanKind.SECTION, lane, "backward", "backward", begun_ns, end_ns
            )
    if open_section is not None:
        yield open_section
