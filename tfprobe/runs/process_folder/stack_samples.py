"""Read stacks.jsonl, what the sampler saw of a process: whole lines that agree, no others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfprobe.runs.process_folder import jsonl

Int64s = npt.NDArray[np.int64]

# A time in ns that does not fit is damage: 2^62 ns are 146 years.
_MOST = 1 << 62
# No file of ours has as many frames or call paths.
_MOST_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """The stacks of a thread: each by its call path, -1 for none, from `at_us` after the start."""

    id: int
    name: str
    at_us: Int64s
    nodes: Int64s


@dataclass(frozen=True, slots=True)
class StackRecord:
    """What one reader saw, in monotonic ns, and the frames and call paths that were new then.

    `frames_from` and `nodes_from` are how many there were before, 0 where a file begins anew. A
    node is the position of its caller, -1 for none, and that of its frame.
    """

    start_ns: int
    end_ns: int
    rate_per_s: int
    samples: int
    errors: int
    cost_ns: int
    frames_from: int
    frames: tuple[tuple[str, int, str], ...]
    nodes_from: int
    nodes: tuple[tuple[int, int], ...]
    threads: tuple[ThreadRecord, ...]


@dataclass(frozen=True, slots=True)
class RefusalRecord:
    """Why no stacks could be read from a moment on."""

    at_ns: int
    problem: str


def stack_log(path: Path) -> jsonl.Log[StackRecord | RefusalRecord]:
    """Return a reader of the stacks of a process; see `lines.Log`."""
    return jsonl.Log(path, _record)


def _record(line: bytes) -> StackRecord | RefusalRecord | None:
    fields = jsonl.object_of(line)
    if fields is None:
        return None
    try:
        if "problem" in fields:
            return RefusalRecord(_number(fields["at_ns"]), _text(fields["problem"]))
        return _stacks(fields)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError):
        return None  # a value that should have been of another kind


# Any: whatever JSON value the line holds; what it must be is asked of each.
def _stacks(fields: jsonl.Json) -> StackRecord:
    names = ("start_ns", "end_ns", "rate_per_s", "samples", "errors", "cost_ns")
    start_ns, end_ns, rate_per_s, samples, errors, cost_ns = (_number(fields[n]) for n in names)
    frames_from = _number(fields["frames_from"], _MOST_ENTRIES)
    nodes_from = _number(fields["nodes_from"], _MOST_ENTRIES)
    frames = tuple(_frame(*each) for each in _list(fields["frames"]))
    last_frame = frames_from + len(frames) - 1
    nodes = tuple(
        _node(nodes_from + at, last_frame, *each) for at, each in enumerate(_list(fields["nodes"]))
    )
    last_node = nodes_from + len(nodes) - 1
    threads = tuple(_thread(last_node, *each) for each in _list(fields["threads"]))
    if end_ns < start_ns or not rate_per_s:
        raise ValueError("no time")
    return StackRecord(
        start_ns, end_ns, rate_per_s, samples, errors, cost_ns,
        frames_from, frames, nodes_from, nodes, threads,
    )  # fmt: skip


def _frame(file: Any, line: Any, function: Any) -> tuple[str, int, str]:
    return _text(file), _number(line), _text(function)


def _node(at: int, last_frame: int, parent: Any, frame: Any) -> tuple[int, int]:
    caller = -1 if parent == -1 else _number(parent, at - 1)
    return caller, _number(frame, last_frame)


def _thread(last_node: int, number: Any, name: Any, at_us: Any, nodes: Any) -> ThreadRecord:
    times = np.cumsum(_numbers(at_us))
    paths = _numbers(nodes)
    if len(times) != len(paths) or (np.diff(times) < 0).any() or (times < 0).any():
        raise ValueError("columns do not agree")
    if len(paths) and (paths.min() < -1 or paths.max() > last_node or times[-1] > _MOST // 1000):
        raise ValueError("no such call path")
    return ThreadRecord(_number(number), _text(name), times, paths)


def _numbers(value: Any) -> Int64s:
    if not all(isinstance(each, int) for each in _list(value)):
        raise ValueError("no numbers")
    return np.array(value, dtype=np.int64)


def _number(value: Any, most: int = _MOST) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError("no number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("no list")
    return value
