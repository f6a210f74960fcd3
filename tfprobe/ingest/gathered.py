"""Gather decoded captures into the tables of a profile, numbered as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfprobe.ingest.captures import Decoded
from tfprobe.ingest.trace import Trace
from tfprobe.model.allocations import Allocations
from tfprobe.model.executions import Executions
from tfprobe.model.profile import Capture
from tfprobe.model.spans import Spans
from tfprobe.model.strings import Interner
from tfprobe.model.tables import TableBuilder


class Gathered:
    """The captures so far. Whoever decodes them has strings become positions in `interner`."""

    def __init__(self) -> None:
        """Start with none."""
        self.interner = Interner()
        self.captures: list[Capture] = []
        self._executions = TableBuilder(Executions, self.interner)
        self._spans = TableBuilder(Spans, self.interner)
        self._allocations = TableBuilder(Allocations, self.interner)

    def add(self, item: Decoded) -> None:
        """Append one capture with its rows."""
        number = len(self.captures)
        self.captures.append(replace(item.capture, index=number))
        self._executions.add(number, item.trace.rows)
        self._spans.add(number, item.trace.spans)
        self._allocations.add(number, item.trace.allocations)

    def add_all(self, captures: Sequence[Capture], trace: Trace) -> None:
        """Append captures of one trace, whose rows have their numbers in it."""
        first = len(self.captures)
        self.captures += [replace(each, index=first + each.index) for each in captures]
        self._executions.extend(first, trace.rows)
        self._spans.extend(first, trace.spans)
        self._allocations.extend(first, trace.allocations)

    def tables(self) -> tuple[Executions, Spans, Allocations]:
        """Return all rows, which this gives away: call it once."""
        return self._executions.table(), self._spans.table(), self._allocations.table()
