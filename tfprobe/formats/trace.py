"""The decoded contents of one capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tfprobe.profile.capture_tables import Allocations, Executions, Spans
from tfprobe.profile.graph import Node


@dataclass(frozen=True, slots=True)
class Marker:
    """A step that is marked in a trace, by its number; `name` is "" if it has none."""

    number: int
    start_ns: int
    end_ns: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class TraceOrigin:
    """The process that a trace says it is of: its rank among `world`, and its host, "" unknown."""

    rank: int | None = None
    world: int | None = None
    host: str = ""


UNKNOWN_ORIGIN = TraceOrigin()


@dataclass(frozen=True, slots=True)
class Trace:
    """The rows of one capture. Without `is_unix`, times count from some moment at its start.

    `markers` are the steps that the program or its framework marked in it, by start. `has_calls`
    says whether functions were called, even if there are no rows. `programs` are those of XLA that
    ran, by the name of the module and the number of the program; with `has_untraced_programs` there
    are some, and no execution of any instruction. `nodes` are those that the trace says something
    of besides executions, by the names of rows.
    """

    rows: Executions
    spans: Spans
    allocations: Allocations
    is_unix: bool = True
    markers: tuple[Marker, ...] = ()
    has_calls: bool = False
    programs: tuple[tuple[str, int], ...] = ()
    has_untraced_programs: bool = False
    nodes: Mapping[str, Node] = field(default_factory=dict)
    origin: TraceOrigin = UNKNOWN_ORIGIN

    @property
    def why_empty(self) -> str:
        """Return why nothing of it can be shown, if it has no rows."""
        if self.has_untraced_programs:
            return (
                "it contains programs of XLA and no execution of their instructions, which JAX "
                "before 0.5 does not record on a CPU"
            )
        return "it holds no execution of an op"

    @property
    def tells_of_steps(self) -> bool:
        """Return whether anything ran: an op, or a function, whose ops may all be folded away."""
        return self.has_calls or len(self.rows) > 0

    def moved(self, by_ns: int) -> Trace:
        """Return it with all times shifted by `by_ns`."""
        return replace(
            self,
            rows=replace(self.rows, start_ns=self.rows.start_ns + by_ns),
            spans=replace(self.spans, start_ns=self.spans.start_ns + by_ns),
            allocations=replace(self.allocations, at_ns=self.allocations.at_ns + by_ns),
            markers=tuple(
                replace(marker, start_ns=marker.start_ns + by_ns, end_ns=marker.end_ns + by_ns)
                for marker in self.markers
            ),
        )
