"""Read gaps.jsonl, what a thread did between steps: whole lines whose numbers agree, no others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.runs.process_folder import jsonl

# A time in ns that does not fit is damage: 2^62 ns are 146 years.
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class FunctionRecord:
    """A function as the agent saw it; `file` is "" and `line` 0 of one written in C."""

    file: str
    line: int
    name: str
    is_generator: bool


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call by where it was made; `parent` is a position in the calls before it, None for none."""

    parent: int | None
    function: FunctionRecord
    called_line: int
    count: int
    self_ns: int


@dataclass(frozen=True, slots=True)
class GapRecord:
    """The time after a step, in monotonic ns; own times of calls sum to its length.

    `cpu_ns` is None where it was not told, as in recordings that know of traced steps alone.
    """

    loop: int
    step: int
    start_ns: int
    end_ns: int
    cost_ns: int
    cut: bool
    calls: tuple[CallRecord, ...]
    why: str = "traced"
    cpu_ns: int | None = None


@dataclass(frozen=True, slots=True)
class GapLog:
    """The gaps of a process, and how many lines could not be read."""

    gaps: tuple[GapRecord, ...]
    bad_lines: int


def read_gaps(path: Path) -> GapLog:
    """Read what was seen between the steps of one process; an absent file holds nothing."""
    log = gap_log(path)
    return GapLog(tuple(log.read().things), log.bad_lines)


def gap_log(path: Path, *, last_bytes: int | None = None) -> jsonl.Log[GapRecord]:
    """Return a reader of what is seen between the steps of a process; see `lines.Log`."""
    return jsonl.Log(path, _gap, last_bytes=last_bytes)


def _gap(line: bytes) -> GapRecord | None:
    fields = jsonl.object_of(line)
    if fields is None:
        return None
    try:
        return _record(fields)
    except (ValueError, TypeError, KeyError, IndexError):
        return None  # a value that should have been of another kind


# Any: whatever JSON value the line holds; what it must be is asked of each.
def _record(fields: jsonl.Json) -> GapRecord:
    functions = [_function(*each) for each in _list(fields["functions"])]
    calls = tuple(_call(at, functions, *each) for at, each in enumerate(_list(fields["calls"])))
    gap = GapRecord(
        loop=_number(fields["work"]),
        step=_number(fields["step"]),
        start_ns=_number(fields["start_ns"]),
        end_ns=_number(fields["end_ns"]),
        cost_ns=_number(fields["cost_ns"]),
        cut=_flag(fields["cut"]),
        calls=calls,
        why=_text(fields.get("why", "traced")),
        cpu_ns=None if fields.get("cpu_ns") is None else _number(fields["cpu_ns"]),
    )
    if sum(call.self_ns for call in calls) != gap.end_ns - gap.start_ns:
        raise ValueError("own times do not sum to the gap")
    return gap


def _function(file: Any, line: Any, name: Any, is_generator: Any) -> FunctionRecord:
    return FunctionRecord(_text(file), _number(line), _text(name), _flag(is_generator))


def _call(
    at: int, functions: list[FunctionRecord], parent: Any, function: Any, *numbers: Any
) -> CallRecord:
    called_line, count, self_ns = map(_number, numbers)
    is_root = parent == -1
    if not is_root and _number(parent) >= at:
        raise ValueError("called by a later call")
    return CallRecord(
        None if is_root else parent, functions[_number(function)], called_line, count, self_ns
    )


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise ValueError("no number")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("no flag")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("no list")
    return value
