"""Find the executions in which processes synchronize: with which others, and which came last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfprobe.analysis.distributed.aligned import Aligned
from tfprobe.analysis.distributed.synchronization_events import SynchronizationKind
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.profile import Process, titled
from tfprobe.profile.tables import Int64s

# With many ranks only some are named; `last` is always named.
_MOST_NAMED = 64


@dataclass(frozen=True, slots=True)
class MetRows:
    """`event_of` maps rows to events, `row_of` events to rows; both by index."""

    together: Aligned
    event_of: dict[int, int]
    row_of: dict[int, int]
    members: dict[int, list[int]]

    def args(self, row: int) -> str:
        """Return the fields of a row's event as the rest of a JSON object; "" for most rows."""
        at = self.event_of.get(row)
        group = -1 if at is None else int(self.together.peers.group[at])
        if at is None or group < 0:
            return ""
        fields: dict[str, object] = {"meeting": group, "with": self._with(at, group)}
        last = int(self.together.peers.last[at])
        if last >= 0:
            fields["last"] = self._who(last)
        if self.together.peers.waited_ns[at] >= 0:
            fields["waited_us"] = int(self.together.peers.waited_ns[at]) / 1000
        return f",{json.dumps(fields)[1:-1]}"

    def arrows(self) -> Iterator[tuple[int, int]]:
        """Yield the rows of each send and its receive, unless the receive ends before the send."""
        kind = self.together.events.kind
        for members in self.members.values():
            if len(members) != 2 or SynchronizationKind.COLLECTIVE in kind[members]:
                continue
            send, receive = sorted(members, key=lambda at: int(kind[at]))
            begins_ns = self.together.events.start_ns[send]
            is_in_order = begins_ns <= self.together.events.end_ns[receive]
            if is_in_order and send in self.row_of and receive in self.row_of:
                yield self.row_of[send], self.row_of[receive]

    def _with(self, at: int, group: int) -> str:
        others = [self._who(member) for member in self.members[group] if member != at]
        left = len(others) - _MOST_NAMED
        return ", ".join(others[:_MOST_NAMED]) + (f" and {left} more" if left > 0 else "")

    def _who(self, at: int) -> str:
        return short_name(self.together.profile.processes[self.together.events.process[at]])


def met_rows(together: Aligned) -> MetRows:
    """Find the row of each event by process, name and start."""
    rows, found = together.profile.executions, together.events
    positions = {text: at for at, text in enumerate(rows.strings.values)}
    names = np.array([positions.get(text, -1) for text in found.strings.values], dtype=np.int64)
    wanted: dict[tuple[int, int, int], int] = {}
    if len(found):
        columns = found.process.tolist(), names[found.name].tolist(), found.start_ns.tolist()
        wanted = {key: at for at, key in enumerate(zip(*columns, strict=True))}
    event_of: dict[int, int] = {}
    row_of: dict[int, int] = {}
    for row, key in _candidates(together, rows, {name for _, name, _ in wanted}):
        at = wanted.get(key)
        if at is not None:
            event_of[row] = at
            row_of.setdefault(at, row)
    return MetRows(together, event_of, row_of, _members(together.peers.group))


def short_name(process: Process) -> str:
    """Name a process by its rank, else by host and pid; with its program if there are several."""
    if process.rank is None:
        return titled(f"{process.host} {process.number}", process.title)
    return titled(f"rank {process.rank}", process.title)


def _candidates(
    together: Aligned, rows: Executions, names: set[int]
) -> Iterator[tuple[int, tuple[int, int, int]]]:
    chosen = np.flatnonzero(np.isin(rows.name, list(names)))
    process_of = np.array(
        [capture.process for capture in together.profile.captures], dtype=np.int64
    )
    process = process_of[rows.capture[chosen]].tolist() if len(chosen) else []
    columns = process, rows.name[chosen].tolist(), rows.start_ns[chosen].tolist()
    return zip(chosen.tolist(), zip(*columns, strict=True), strict=True)


def _members(group: Int64s) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for at, number in enumerate(group.tolist()):
        if number >= 0:
            found.setdefault(number, []).append(at)
    return found


Document = dict[str, Any]  # Any: JSON


def clock_document(together: Aligned) -> list[Document]:
    """Return the clocks of all processes, as metadata of a file."""
    return [
        {
            "process": short_name(process),
            "host": process.host,
            "pid": process.number,
            "rank": process.rank,
            **_clock(together, process.index),
        }
        for process in together.profile.processes
    ]


def clock_label(together: Aligned, process: int) -> str:
    """Return the clock of one process in a few words; "" if there is only one process."""
    clock = together.clock(process)
    if process == together.clocks.reference:
        return "reference clock" if len(together.clocks.clocks) > 1 else ""
    if isinstance(clock.offset_ns, Missing):
        return f"on its own clock: {clock.offset_ns.reason}"
    moved = "its clock is ahead by" if together.as_recorded else "moved by"
    amount_ns = clock.offset_ns if together.as_recorded else -clock.offset_ns
    return f"{moved} {amount_ns / 1000:.3f} us{_error(clock.error_ns)}, {clock.basis}"


def _error(error_ns: int | Missing) -> str:
    return "" if isinstance(error_ns, Missing) else f" +- {error_ns / 1000:.3f} us"


def _clock(together: Aligned, process: int) -> Document:
    """Return numbers as text, because viewers read numbers as 64-bit floats."""
    clock = together.clock(process)
    is_known = not isinstance(clock.offset_ns, Missing)
    return {
        "is_reference": process == together.clocks.reference,
        "offset_ns": str(clock.offset_ns) if is_known else None,
        "applied_ns": str(clock.offset_ns) if is_known and not together.as_recorded else "0",
        "error_ns": None if isinstance(clock.error_ns, Missing) else str(clock.error_ns),
        "basis": clock.basis,
        **({} if is_known else {"missing": _reason(clock.offset_ns)}),
    }


def _reason(value: int | Missing) -> str:
    return value.reason if isinstance(value, Missing) else ""
