"""Hold what one capture says, decoded."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfprobe.model.allocations import Allocations
from tfprobe.model.executions import Executions
from tfprobe.model.spans import Spans


@dataclass(frozen=True, slots=True)
class Trace:
    """The rows of one capture. Without `is_unix`, times count from some moment at its start."""

    rows: Executions
    spans: Spans
    allocations: Allocations
    is_unix: bool = True

    def moved(self, by_ns: int) -> Trace:
        """Return it with all times so much later."""
        return replace(
            self,
            rows=replace(self.rows, start_ns=self.rows.start_ns + by_ns),
            spans=replace(self.spans, start_ns=self.spans.start_ns + by_ns),
            allocations=replace(self.allocations, at_ns=self.allocations.at_ns + by_ns),
        )
