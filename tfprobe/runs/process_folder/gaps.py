"""Read gaps.jsonl, what a thread did between steps: complete lines whose numbers agree."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tfprobe.profile.activities import NOT_NOTED, Call, Gap, StepWait
from tfprobe.runs.process_folder import jsonl

# A larger time in ns is damage: 2^62 ns are 146 years.
_MOST = 1 << 62
# File, line, name, and whether it is a generator.
_Function = tuple[str, int, str, bool]


def gap_log(
    path: Path, *, process: int = 0, shift_ns: int = 0, last_bytes: int | None = None
) -> jsonl.Log[Gap]:
    """Return a reader of the gaps of a process, which may still write; see `jsonl.Log`.

    `shift_ns`, unix time less monotonic time, is added to their times.
    """
    parse = functools.partial(_line, process=process, shift_ns=shift_ns)
    return jsonl.Log(path, parse, last_bytes=last_bytes)


def _line(line: bytes, *, process: int, shift_ns: int) -> Gap | None:
    fields = jsonl.object_of(line)
    if fields is None:
        return None
    try:
        return _gap(fields, process, shift_ns)
    except (ValueError, TypeError, KeyError, IndexError):
        return None  # a value of the wrong type, or none


# Any, here and below: whatever JSON value the line holds, which is checked.
def _gap(fields: jsonl.Json, process: int, shift_ns: int) -> Gap:
    functions = [_function(*function) for function in _list(fields["functions"])]
    calls = tuple(
        _call(index, functions, *call) for index, call in enumerate(_list(fields["calls"]))
    )
    start_ns, duration_ns = _number(fields["start_ns"]), sum(call.self_ns for call in calls)
    if _number(fields["end_ns"]) - start_ns != duration_ns:
        raise ValueError("own times do not sum to the gap")
    return Gap(
        process=process,
        loop=_number(fields["work"]),
        step=_number(fields["step"]),
        start_ns=start_ns + shift_ns,
        duration_ns=duration_ns,
        cost_ns=_number(fields["cost_ns"]),
        cut=_flag(fields["cut"]),
        calls=calls,
        why=_text(fields.get("why", "traced")),
        cpu_ns=NOT_NOTED if fields.get("cpu_ns") is None else _number(fields["cpu_ns"]),
        waits=tuple(_wait(*wait) for wait in _list(fields.get("waits", []))),
    )


def _wait(file: Any, line: Any, times: Any, ns: Any) -> StepWait:
    return StepWait(_text(file), _number(line), _number(times), _number(ns))


def _function(file: Any, line: Any, name: Any, is_generator: Any) -> _Function:
    return _text(file), _number(line), _text(name), _flag(is_generator)


def _call(
    index: int, functions: list[_Function], parent: Any, function: Any, *numbers: Any
) -> Call:
    called_line, count, self_ns = map(_number, numbers)
    is_root = parent == -1
    if not is_root and _number(parent) >= index:
        raise ValueError("called by a later call")
    file, line, name, is_generator = functions[_number(function)]
    return Call(
        parent=None if is_root else parent,
        function=name,
        file=file,
        line=line,
        called_line=called_line,
        is_generator=is_generator,
        count=count,
        self_ns=self_ns,
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
