"""Find what Python did while no op of a thread ran: the function that took most of each gap."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tfprobe.formats.kineto.events import Kind, KinetoEvents
from tfprobe.formats.kineto.nesting import NONE, OpNesting
from tfprobe.profile.graph import is_of_library
from tfprobe.profile.tables import Int64s

# Calls of functions between two ops of a layer take less.
_LEAST_GAP_NS = 50_000
# A function counts if it takes at least this share of a gap.
_LEAST_RATIO = 0.5
FRAME = re.compile(r"(?P<file>.+?)\((?P<line>\d{1,9})\): (?P<function>.+)\Z", re.DOTALL)
AGENT = re.compile(r"(?:.*/)?tfprobe_agent/")
_BUILT_IN = re.compile(r"<built-in (?:function|method) (?P<function>\w+)")


class PythonGap(NamedTuple):
    """A gap between ops of a thread, and the function that took most of it, with its line.

    `source` is "file:line" of the innermost function of the program, "" if none is known: the line
    that called what took the time, if that is known, else the first one.
    """

    lane: int
    name: str
    source: str
    start_ns: int
    end_ns: int


class ThreadFunctions(NamedTuple):
    """The functions of a thread, by start; those directly in each, the last list has outermost."""

    boxes: list[int]
    starts_ns: list[int]
    ends_ns: list[int]
    inside: list[list[int]]


def python_gaps(events: KinetoEvents, nesting: OpNesting) -> Iterator[PythonGap]:
    """Yield the gaps in which a known function took at least half of the time."""
    frames = np.flatnonzero(events.kind == Kind.FRAME)
    if not len(frames):
        return
    outermost = nesting.order[nesting.parent[nesting.order] == NONE]
    lanes = np.intersect1d(events.lane[frames], events.lane[outermost])
    for lane in lanes.tolist():
        ops = outermost[events.lane[outermost] == lane]
        found = nested(events, frames[events.lane[frames] == lane])
        starts_ns = events.start_ns[ops]
        ends_ns = np.maximum.accumulate(starts_ns + events.duration_ns[ops])
        begins = np.concatenate([[found.starts_ns[0]], ends_ns])
        ends = np.concatenate([starts_ns, [max(found.ends_ns)]])
        for at in np.flatnonzero(ends - begins >= _LEAST_GAP_NS).tolist():
            gap = _in_gap(events, found, int(begins[at]), int(ends[at]))
            if gap is not None:
                yield PythonGap(lane, *gap)


def nested(events: KinetoEvents, frames: Int64s) -> ThreadFunctions:
    """Return which function of a thread called which."""
    order = frames[np.lexsort((-events.duration_ns[frames], events.start_ns[frames]))]
    starts_ns = events.start_ns[order].tolist()
    ends_ns = (events.start_ns[order] + events.duration_ns[order]).tolist()
    inside: list[list[int]] = [[] for _ in range(len(order) + 1)]
    around: list[int] = []
    for at, start_ns in enumerate(starts_ns):
        while around and ends_ns[around[-1]] <= start_ns:
            around.pop()
        inside[around[-1] if around else len(order)].append(at)
        around.append(at)
    return ThreadFunctions(order.tolist(), starts_ns, ends_ns, inside)


def _in_gap(
    events: KinetoEvents, frames: ThreadFunctions, begin_ns: int, end_ns: int
) -> tuple[str, str, int, int] | None:
    """Return the innermost function that took most of a gap: name, source, and when."""
    least_ns = (end_ns - begin_ns) * _LEAST_RATIO
    at, name, source = len(frames.boxes), "", ""
    times_ns, start_of = (begin_ns, end_ns), frames.starts_ns.__getitem__
    while True:
        children = frames.inside[at]
        low = max(bisect_right(children, begin_ns, key=start_of) - 1, 0)
        high = bisect_left(children, end_ns, key=start_of)
        most_ns, most = 0, -1
        for child in children[low:high]:
            shared_ns = min(frames.ends_ns[child], end_ns) - max(frames.starts_ns[child], begin_ns)
            if shared_ns > most_ns:
                most_ns, most = shared_ns, child
        if most < 0 or most_ns < least_ns:
            break
        at = most
        box = frames.boxes[at]
        called = events.texts[events.name[box]]
        if AGENT.match(called):
            continue  # it stands around a call of the program
        name = called
        times_ns = max(frames.starts_ns[at], begin_ns), min(frames.ends_ns[at], end_ns)
        frame = FRAME.match(name)
        if frame is not None and not is_of_library(frame["file"]):
            source = f"{frame['file']}:{frame['line']}"
        elif events.call[box] != NONE:
            file, line = events.call_lines[events.call[box]]
            source = source if is_of_library(file) else f"{file}:{line}"
    if not name:
        return None
    known = FRAME.match(name) or _BUILT_IN.match(name)
    return known["function"] if known else name, source, *times_ns
