"""Gather decoded captures into the captures and tables of a profile, whenever they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tfprobe.profile.allocations import Allocations
from tfprobe.profile.executions import Executions
from tfprobe.profile.growing import GrowingTable
from tfprobe.profile.profile import Capture
from tfprobe.profile.reader.captures import Decoded
from tfprobe.profile.spans import Spans
from tfprobe.profile.strings import Interner

# Host and name of the process folder: processes stand in this order.
ProcessKey = tuple[str, str]
# Those and the name of the file.
CaptureKey = tuple[str, str, str]


class Gathered:
    """The captures so far. Whoever decodes them has strings become positions in `interner`."""

    def __init__(self) -> None:
        """Start with none."""
        self.interner = Interner()
        self._captures: dict[CaptureKey, Capture] = {}
        self._executions = GrowingTable(Executions, self.interner)
        self._spans = GrowingTable(Spans, self.interner)
        self._allocations = GrowingTable(Allocations, self.interner)

    def put(self, key: CaptureKey, item: Decoded) -> None:
        """Add one capture with its rows, or put it in the place of what was there."""
        self._captures[key] = item.capture
        self._executions.put(key, item.trace.rows)
        self._spans.put(key, item.trace.spans)
        self._allocations.put(key, item.trace.allocations)

    def drop(self, key: CaptureKey) -> None:
        """Remove a capture, if it is there."""
        if self._captures.pop(key, None) is not None:
            for table in (self._executions, self._spans, self._allocations):
                table.drop(key)

    def captures(self, processes: Mapping[ProcessKey, int]) -> tuple[Capture, ...]:
        """Return the captures in order; `processes` has the place of each process."""
        for index, key in enumerate(sorted(self._captures)):
            known, process = self._captures.pop(key), processes[key[:2]]
            if (known.index, known.process) != (index, process):
                known = replace(known, index=index, process=process)
            self._captures[key] = known
        return tuple(self._captures.values())

    def tables(self) -> tuple[Executions, Spans, Allocations]:
        """Return all rows, the same tables while nothing has changed."""
        return self._executions.table(), self._spans.table(), self._allocations.table()
