"""Take the Chrome trace that py-spy writes apart into the stacks of each thread. Bytes to values.

py-spy writes an event where a stack differs from the sample before, so a stack lasts from the
moment it was first read to that of the first other one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# The outermost frame that `--threads` adds; of Python 3.10 and older it has the pthread.
_THREAD = re.compile(r"thread \((0[xX][0-9A-Fa-f]+|\d+)\)(?:: (.*))?", re.DOTALL)
# What is deeper is cut: a recursion of a million calls would fill the file.
MOST_FRAMES = 200


class Frame(NamedTuple):
    """A line that runs; `function` is its qualified name in Python 3.11 and newer."""

    file: str
    line: int
    function: str


class Read(NamedTuple):
    """A stack from when it was first read, outermost frame first; None where no Python runs."""

    at_us: int
    stack: tuple[Frame, ...] | None


@dataclass(slots=True)
class ThreadReads:
    """The stacks of a thread in the order of time."""

    id: int
    name: str
    reads: list[Read] = field(default_factory=list)


class Trace(NamedTuple):
    """What py-spy wrote: threads, and the moment of its end, on a clock of its own."""

    threads: list[ThreadReads]
    end_us: int


def parse(content: bytes) -> Trace:
    """Take a trace apart. Raises ValueError where it is none."""
    try:
        by_thread: dict[int, list[dict[str, Any]]] = {}
        for event in json.loads(content):
            by_thread.setdefault(event["tid"], []).append(event)
        end_us = max((events[-1]["ts"] for events in by_thread.values()), default=0)
        threads = [_thread(tid, events, end_us) for tid, events in by_thread.items()]
    except (TypeError, LookupError, RecursionError) as exc:
        raise ValueError("no trace of py-spy") from exc
    return Trace(threads, end_us)


# Any: events are JSON objects of another program.
def _thread(tid: int, events: list[dict[str, Any]], end_us: int) -> ThreadReads:
    found = ThreadReads(tid, "")
    open_frames: list[Frame] = []
    for at, event in enumerate(events):
        if event["ph"] == "B":
            args = event["args"]
            open_frames.append(Frame(args["filename"], args["line"] or 0, event["name"]))
        elif open_frames:
            open_frames.pop()
        is_last = at + 1 == len(events) or events[at + 1]["ts"] != event["ts"]
        if is_last and event["ts"] < end_us:
            found.reads.append(Read(event["ts"], _stack(found, open_frames)))
    return found


def _stack(thread: ThreadReads, frames: list[Frame]) -> tuple[Frame, ...] | None:
    """Return a stack without the frame that names its thread."""
    if not frames:
        return None
    named = None if frames[0].file else _THREAD.fullmatch(frames[0].function)
    if named is None:
        return tuple(frames[:MOST_FRAMES])
    thread.id = int(named[1], 0)
    thread.name = named[2] or thread.name
    return tuple(frames[1 : MOST_FRAMES + 1]) or None
