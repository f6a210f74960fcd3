"""Append the samples of a process to its stacks.jsonl, each frame and call path once."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tfprobe.profile.activities import SampledFrame
from tfprobe.runs import safe_files

# A day takes about 2 MB: stacks never fill a disk.
MOST_BYTES = 32 << 20
# Generated code may have a function per call; beyond this, stacks end at the last known frame.
MOST_FRAMES = 100_000
MOST_NODES = 400_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one reader saw of a process, in monotonic ns; reads are in us since the start."""

    start_ns: int
    end_ns: int
    rate_per_s: int
    samples: int
    errors: int
    cost_ns: int
    threads: tuple[ThreadReads, ...]


class StackFile:
    """A file being written. Its size is bounded: once it is full, further samples are dropped."""

    def __init__(self, run: Path, path: Path) -> None:
        """Open the file. Raises OSError."""
        self._file = safe_files.opened(run, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._bytes = os.fstat(self._file).st_size
        self._frames: dict[SampledFrame, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}

    def append(self, chunk: Chunk) -> None:
        """Write one line. Raises OSError."""
        if self._bytes > MOST_BYTES:
            return
        frames_from, nodes_from = len(self._frames), len(self._nodes)
        threads = [self._thread(thread) for thread in chunk.threads]
        # Dictionaries keep insertion order: new entries are at the end.
        self._write(
            {
                "start_ns": chunk.start_ns,
                "end_ns": chunk.end_ns,
                "rate_per_s": chunk.rate_per_s,
                "samples": chunk.samples,
                "errors": chunk.errors,
                "cost_ns": chunk.cost_ns,
                "frames_from": frames_from,
                "frames": list(self._frames)[frames_from:],
                "nodes_from": nodes_from,
                "nodes": list(self._nodes)[nodes_from:],
                "threads": threads,
            }
        )

    def note(self, at_ns: int, problem: str) -> None:
        """Record why there are no stacks from here on. Raises OSError."""
        self._write({"at_ns": at_ns, "problem": problem})

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _thread(self, thread: ThreadReads) -> list[Any]:
        at_us, nodes, last_us = [], [], 0
        for read in thread.reads:
            at_us.append(read.at_us - last_us)
            last_us = read.at_us
            nodes.append(self._node(read.stack))
        return [thread.id, thread.name, at_us, nodes]

    def _node(self, stack: tuple[SampledFrame, ...] | None) -> int:
        node = -1
        for frame in stack or ():
            number = self._frames.get(frame)
            if number is None:
                if len(self._frames) >= MOST_FRAMES:
                    break
                number = self._frames[frame] = len(self._frames)
            key = (node, number)
            below = self._nodes.get(key)
            if below is None:
                if len(self._nodes) >= MOST_NODES:
                    break
                below = self._nodes[key] = len(self._nodes)
            node = below
        return node

    def _write(self, document: dict[str, Any]) -> None:
        line = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        os.write(self._file, line)
        self._bytes += len(line)


# The outermost frame that `--threads` adds; on Python 3.10 and older it contains the pthread id.
_THREAD = re.compile(r"thread \((0[xX][0-9A-Fa-f]+|\d+)\)(?:: (.*))?", re.DOTALL)
# Deeper stacks are cut: a recursion of a million calls would fill the file.
CHROME_TRACE_MOST_FRAMES = 200


class Read(NamedTuple):
    """A stack and when it was first read, outermost frame first; None if no Python code runs."""

    at_us: int
    stack: tuple[SampledFrame, ...] | None


@dataclass(slots=True)
class ThreadReads:
    """The stacks of a thread in chronological order."""

    id: int
    name: str
    reads: list[Read] = field(default_factory=list)


class StackTrace(NamedTuple):
    """What py-spy wrote: threads, and the time of its end, on py-spy's own clock."""

    threads: list[ThreadReads]
    end_us: int


def parse(content: bytes) -> StackTrace:
    """Parse a trace. Raises ValueError if it is not one."""
    try:
        by_thread: dict[int, list[dict[str, Any]]] = {}
        for event in json.loads(content):
            by_thread.setdefault(event["tid"], []).append(event)
        end_us = max((events[-1]["ts"] for events in by_thread.values()), default=0)
        threads = [_thread(tid, events, end_us) for tid, events in by_thread.items()]
    except (TypeError, LookupError, RecursionError) as exc:
        raise ValueError("no trace of py-spy") from exc
    return StackTrace(threads, end_us)


# Any: events are JSON objects of another program.
def _thread(tid: int, events: list[dict[str, Any]], end_us: int) -> ThreadReads:
    found = ThreadReads(tid, "")
    open_frames: list[SampledFrame] = []
    for at, event in enumerate(events):
        if event["ph"] == "B":
            args = event["args"]
            open_frames.append(SampledFrame(args["filename"], args["line"] or 0, event["name"]))
        elif open_frames:
            open_frames.pop()
        is_last = at + 1 == len(events) or events[at + 1]["ts"] != event["ts"]
        if is_last and event["ts"] < end_us:
            found.reads.append(Read(event["ts"], _stack(found, open_frames)))
    return found


def _stack(thread: ThreadReads, frames: list[SampledFrame]) -> tuple[SampledFrame, ...] | None:
    """Return a stack without the frame that names its thread."""
    if not frames:
        return None
    named = None if frames[0].file else _THREAD.fullmatch(frames[0].function)
    if named is None:
        return tuple(frames[:CHROME_TRACE_MOST_FRAMES])
    thread.id = int(named[1], 0)
    thread.name = named[2] or thread.name
    return tuple(frames[1 : CHROME_TRACE_MOST_FRAMES + 1]) or None
