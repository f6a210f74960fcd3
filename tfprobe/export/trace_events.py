"""Write the trace event format that chrome://tracing and Perfetto open.

Metadata and boxes come first, then arrows and counters; keys are sorted and nothing is spaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class TraceEvents:
    """The events of one file, in the order in which they will be written."""

    def __init__(self) -> None:
        """Start without events."""
        self._boxes: list[dict[str, Any]] = []
        self._arrows: list[dict[str, Any]] = []
        self._processes = 0

    def process(self, name: str) -> int:
        """Add a row of lanes; return its pid."""
        pid = self._processes
        self._processes += 1
        self._boxes.append({"args": {"name": name}, "name": "process_name", "ph": "M", "pid": pid})
        return pid

    def box(
        self, name: str, pid: int, lane: int, start_us: int, duration_us: int, **args: str
    ) -> None:
        """Add a duration event."""
        self._boxes.append(
            {
                "args": {"name": name, **args},
                "cat": "Op",
                "dur": duration_us,
                "name": name,
                "ph": "X",
                "pid": pid,
                "tid": lane,
                "ts": start_us,
            }
        )

    def arrow_end(
        self, phase: str, name: str, number: int, pid: int, lane: int, at_us: int
    ) -> None:
        """Add the start ("s") or the end ("t") of an arrow."""
        self._arrows.append(
            {
                "cat": "DataFlow",
                "id": number,
                "name": name,
                "ph": phase,
                "pid": pid,
                "tid": lane,
                "ts": at_us,
            }
        )

    def counter(self, name: str, pid: int, at_us: int, values: dict[str, Any]) -> None:
        """Add the values of a counter from `at_us` on."""
        self._arrows.append(
            {
                "args": values,
                "cat": "Memory",
                "name": name,
                "ph": "C",
                "pid": pid,
                "tid": 0,
                "ts": at_us,
            }
        )

    def to_json(self) -> str:
        """Return the file's text."""
        document = {"traceEvents": self._boxes + self._arrows}
        return json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n"


def process(pid: int, name: str, *, place: int, label: str = "") -> Iterator[str]:
    """Yield the metadata of a process; viewers sort by `place` and show the label."""
    yield _about(pid, "process_name", f'"name":{json.dumps(name)}')
    yield _about(pid, "process_sort_index", f'"sort_index":{place}')
    if label:
        yield _about(pid, "process_labels", f'"labels":{json.dumps(label)}')


def thread(pid: int, lane: int, name: str) -> str:
    """Return the metadata event that names a row."""
    args = f'{{"name":{json.dumps(name)}}}'
    return f'{{"ph":"M","name":"thread_name","pid":{pid},"tid":{lane},"args":{args}}}'


def box(
    name: str, category: str, pid: int, lane: int, start_us: str, duration_us: str, args: str
) -> str:
    """Return a duration event; `name` and `args` are JSON."""
    return (
        f'{{"ph":"X","cat":"{category}","name":{name},"pid":{pid},"tid":{lane},'
        f'"ts":{start_us},"dur":{duration_us},"args":{args}}}'
    )


def arrow_end(
    phase: str, category: str, name: str, number: int, pid: int, lane: int, at_us: str
) -> str:
    """Return one end of an arrow: "s" begins it, "f" ends it in the box around that time."""
    return (
        f'{{"ph":"{phase}","cat":"{category}","name":{name},"id":{number},'
        f'"pid":{pid},"tid":{lane},"ts":{at_us},"bp":"e"}}'
    )


def counter(name: str, pid: int, at_us: str, values: dict[str, float]) -> str:
    """Return a counter event: values from this time on."""
    args = json.dumps(values)
    return f'{{"ph":"C","name":"{name}","pid":{pid},"tid":0,"ts":{at_us},"args":{args}}}'


def us(ns: int) -> str:
    """Return a time in µs without rounding its ns."""
    sign, amount = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{amount // 1000}.{amount % 1000:03d}"


def _about(pid: int, what: str, args: str) -> str:
    return f'{{"ph":"M","name":"{what}","pid":{pid},"args":{{{args}}}}}'
