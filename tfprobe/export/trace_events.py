"""Write the trace event format that chrome://tracing and Perfetto open.

Metadata and boxes come first, then arrows and counters; keys are sorted and nothing is spaced.
"""

from __future__ import annotations

import json
from typing import Any


class TraceEvents:
    """The events of one file, in the order in which they will be written."""

    def __init__(self) -> None:
        """Start with none."""
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
        """Add something that took time."""
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
