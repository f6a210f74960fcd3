"""Append what was sampled of a process to its stacks.jsonl, each frame and call path once."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.attach.sampler.chrome_trace import Frame, ThreadReads
from tfprobe.runs import safe_files

# A day takes about 2 MB: no job fills a disk by its stacks.
MOST_BYTES = 32 << 20
# Generated code may have a function for each call; beyond these a stack ends at what is known.
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
    """A file that is being written. It is bounded: what comes after it is full is dropped."""

    def __init__(self, run: Path, path: Path) -> None:
        """Open it. Raises OSError."""
        self._file = safe_files.opened(run, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._bytes = os.fstat(self._file).st_size
        self._frames: dict[Frame, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}

    def append(self, chunk: Chunk) -> None:
        """Write one line. Raises OSError."""
        if self._bytes > MOST_BYTES:
            return
        frames_from, nodes_from = len(self._frames), len(self._nodes)
        threads = [self._thread(each) for each in chunk.threads]
        # Dictionaries keep their order: what is new stands at the end.
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
        """Write why there are no stacks from here on. Raises OSError."""
        self._write({"at_ns": at_ns, "problem": problem})

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _thread(self, thread: ThreadReads) -> list[Any]:
        at_us, nodes, last_us = [], [], 0
        for read in thread.reads:
            at_us.append(read.at_us - last_us)
            last_us = read.at_us
            nodes.append(self._node(read.stack))
        return [thread.id, thread.name, at_us, nodes]

    def _node(self, stack: tuple[Frame, ...] | None) -> int:
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
