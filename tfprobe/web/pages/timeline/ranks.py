"""One traced step of all ranks on one axis, as the page `timeline` draws it.

The document has the form of that of one step: tracks, slices as columns, categories. A rank is a
group of three tracks: what its moments are charged to, where it meets others, how long it waits for
the last of them. Times count in ns from the first start of the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfprobe.analysis.breakdown.step_parts import part_names
from tfprobe.analysis.core.intervals import Intervals, union, within_ns
from tfprobe.analysis.distributed.aligned import Aligned
from tfprobe.analysis.distributed.synchronization_events import SynchronizationKind
from tfprobe.analysis.timeline import lanes
from tfprobe.analysis.timeline.lanes import Window, drawn
from tfprobe.analysis.timeline.rank_timeline import (
    RankStep,
    RankTimeline,
    same_step,
    timeline_of_step,
)
from tfprobe.analysis.timeline.slice_categories import CATEGORIES, NUMBER, bands_of
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.profile import Process
from tfprobe.profile.tables import Int64s
from tfprobe.report.documents.document import Document
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.loop_choice import process_document
from tfprobe.web.pages.timeline.step_timeline import CELLS, chosen_capture, cut
from tfprobe.web.params import Params
from tfprobe.web.together import across_of, aligned_of

MOST_PARTS = 12_000
MOST_MEETINGS_OF_A_RANK = 400
_MOST_ROWS = 4
_COLUMNS: tuple[str, ...] = (
    *("id", "row", "start_ns", "length_ns", "count", "busy_ns"),
    *("category", "name", "op", "meeting"),
)
_WAITING, _SENT = len(CATEGORIES), len(CATEGORIES) + 1
_MORE_CATEGORIES = (
    {"name": "waiting", "label": "waits for the last", "group": ""},
    {"name": "sent", "label": "sends and receives", "group": ""},
)


@dataclass(slots=True)
class _Slices:
    """Columns that grow; texts have numbers in the order they came."""

    texts: dict[str, int] = field(default_factory=dict)
    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})

    def add(self, **each: Any) -> None:
        """Add a slice. Any: numbers and texts."""
        each["name"], each["op"] = self._text(each["name"]), self._text(each["op"])
        for name, column in self.columns.items():
            column.append(each[name])

    def _text(self, text: str) -> int:
        return self.texts.setdefault(cut(text), len(self.texts))


def document(run: OpenRun, question: Params) -> Document:
    """Return the step of `capture=` in all ranks that recorded it.

    Raises NoAnswer where one process alone did.
    """
    capture = chosen_capture(run, question)
    if len(same_step(run.profile, capture)) < 2:
        raise NoAnswer("One process alone recorded this step: record the same steps on all ranks.")
    together = aligned_of(run)
    moved = together.profile.captures[capture.index]
    found = run.made(
        ("across", capture.index), lambda: timeline_of_step(together, moved, slow=_slow(run))
    )
    return run.made(("ranks drawn", capture.index), lambda: _document(run, found, moved.index))


def _slow(run: OpenRun) -> tuple[int, ...]:
    return tuple(straggler.process for straggler in across_of(run).slow)


def _document(run: OpenRun, found: RankTimeline, capture: int) -> Document:
    slices, tracks = _Slices(), list[Document]()
    for rank in found.ranks:
        tracks += _tracks(run, found, rank, slices, first=sum(track["rows"] for track in tracks))
    whole = _whole(found)
    traced = found.together.profile.captures[capture]
    return {
        "capture": capture,
        "step": traced.step,
        "duration_ns": whole["to_ns"] - whole["from_ns"],
        "start_unix_ns": str(found.zero_ns),
        "whole": whole,
        "window": whole,
        "view": whole,
        "is_whole": max(slices.columns["count"], default=1) == 1,
        "total": len(slices.columns["id"]),
        "categories": [*(category._asdict() for category in CATEGORIES), *_MORE_CATEGORIES],
        "bands": [],
        "overview": {"groups": [_waiting(found, whole)]},
        "tracks": tracks,
        "names": list(slices.texts),
        "slices": slices.columns,
        "meetings": met_documents(found),
        "ranks": [_rank(found, rank_step) for rank_step in found.ranks],
        "ranks_left_out": found.left_out,
        "clock_error_ns": _worst_error_ns(found),
    }


def _whole(found: RankTimeline) -> Document:
    starts = [rank.capture.start_ns + found.move_ns(rank) for rank in found.ranks]
    ends = [
        start + rank.capture.duration_ns for start, rank in zip(starts, found.ranks, strict=True)
    ]
    return {"from_ns": min(starts), "to_ns": max(max(ends), min(starts) + 1)}


def _tracks(
    run: OpenRun, found: RankTimeline, rank: RankStep, slices: _Slices, *, first: int
) -> Iterator[Document]:
    """Add the slices of a rank, and give its tracks."""
    group = title(found.together, rank)
    count = len(slices.columns["id"])
    _add_parts(run, found, rank, slices, first)
    yield _track(group, "what it does", 1, len(slices.columns["id"]) - count)
    kept = _kept(found.together, rank)
    rows = _add_events(found, rank, kept, slices, first + 1)
    if rows:
        left_out = len(rank.events) - len(kept)
        yield _track(group, "meets others", rows, len(kept), left_out)
        count = len(slices.columns["id"])
        _add_waits(found, rank, kept, slices, first + 1 + rows)
        yield _track(group, "waits for the last", 1, len(slices.columns["id"]) - count)


def title(together: Aligned, rank: RankStep) -> str:
    """Name a rank as short as the drawing has room for, with how sure its times are."""
    process = together.profile.processes[rank.capture.process]
    short = process_title(process) if process.rank is None else f"rank {process.rank}"
    return f"{short}{_sureness(together, rank)}"


def process_title(process: Process) -> str:
    """Name a process: rank and role, host, pid."""
    role = f" ({process.role})" if process.role else ""
    rank = "" if process.rank is None else f"rank {process.rank}{role} "
    return cut(f"{rank}{process.host} {process.label}")


def _sureness(together: Aligned, rank: RankStep) -> str:
    if not rank.is_on_clock:
        return ", clock not known"
    error_ns = together.clock(rank.capture.process).error_ns
    if isinstance(error_ns, Missing) or not error_ns:
        return ""
    return f", ± {error_ns / 1000:,.1f} µs"


def _track(group: str, name: str, rows: int, count: int, left_out: int = 0) -> Document:
    facts = {"rows": rows, "count": count, "left_out": left_out}
    return {"group": group, "name": name, "lane": name, **facts}


def _add_parts(
    run: OpenRun, found: RankTimeline, rank: RankStep, slices: _Slices, row: int
) -> None:
    known = run.made("names", lambda: part_names(run.profile.executions))
    for band in bands_of(found.together.profile, rank.capture, known)[:1]:
        window = Window(0, max(rank.capture.duration_ns, 1))
        most = max(MOST_PARTS // len(found.ranks), 100)
        row_of = np.zeros(len(band.part), dtype=np.int64)
        seen = drawn(row_of, band.start_ns, band.end_ns, window, most=most)
        start_ns = rank.capture.start_ns + found.move_ns(rank)
        for at in range(len(seen.longest)):
            category = int(band.part[seen.longest[at]])
            slices.add(
                id=f"p{rank.capture.process}.{at}",
                row=row,
                start_ns=start_ns + int(seen.start_ns[at]),
                length_ns=int(seen.end_ns[at] - seen.start_ns[at]),
                count=int(seen.count[at]),
                busy_ns=int(seen.busy_ns[at]),
                category=category,
                name=CATEGORIES[category].label,
                op="",
                meeting=-1,
            )


def _kept(together: Aligned, rank: RankStep) -> Int64s:
    """Return the events that are drawn, by their start; of too many, the longest."""
    events = together.events
    length_ns = events.end_ns[rank.events] - events.start_ns[rank.events]
    longest = np.argsort(-length_ns, kind="stable")[:MOST_MEETINGS_OF_A_RANK]
    kept = rank.events[np.sort(longest)]
    return kept[np.lexsort((-events.end_ns[kept], events.start_ns[kept]))]


def _add_events(
    found: RankTimeline, rank: RankStep, kept: Int64s, slices: _Slices, first: int
) -> int:
    """Add what is in rows from `first` on; return how many rows that takes."""
    events, move_ns = found.together.events, found.move_ns(rank)
    rows = lanes.rows(events.start_ns[kept], events.end_ns[kept], most=_MOST_ROWS)
    order = np.lexsort((events.start_ns[kept], rows))
    for at, row in zip(kept[order].tolist(), rows[order].tolist(), strict=True):
        if row < _MOST_ROWS:
            is_collective = events.kind[at] == SynchronizationKind.COLLECTIVE
            length_ns = int(events.end_ns[at] - events.start_ns[at])
            slices.add(
                id=f"m{at}",
                row=first + row,
                start_ns=int(events.start_ns[at]) + move_ns,
                length_ns=length_ns,
                count=1,
                busy_ns=length_ns,
                category=NUMBER["collectives"] if is_collective else _SENT,
                name=events.strings[events.name[at]],
                op="",
                meeting=int(found.together.peers.group[at]),
            )
    return int(rows.max(initial=-1, where=rows < _MOST_ROWS)) + 1


def _add_waits(
    found: RankTimeline, rank: RankStep, kept: Int64s, slices: _Slices, row: int
) -> None:
    """Add how long the rank was in each collective before the last one was there."""
    events, peers = found.together.events, found.together.peers
    end_ns = -(2**62)
    for at in kept[peers.waited_ns[kept] > 0].tolist():
        start_ns = int(events.start_ns[at])
        if start_ns < end_ns:
            continue  # of collectives inside each other the outer one has the whole wait
        end_ns = start_ns + int(peers.waited_ns[at])
        slices.add(
            id=f"w{at}",
            row=row,
            start_ns=start_ns + found.move_ns(rank),
            length_ns=end_ns - start_ns,
            count=1,
            busy_ns=end_ns - start_ns,
            category=_WAITING,
            name=f"waits: {events.strings[events.name[at]]}",
            op="",
            meeting=int(peers.group[at]),
        )


def _waiting(found: RankTimeline, whole: Document) -> Document:
    """Return how much of all ranks waits, by cells of the whole time."""
    edges = np.linspace(whole["from_ns"], whole["to_ns"], CELLS + 1).astype(np.int64)
    waits = np.zeros(CELLS, dtype=np.int64)
    for rank in found.ranks:
        waits += within_ns(_waits_of(found, rank), edges[:-1], edges[1:])
    cell_ns = np.maximum(np.diff(edges), 1) * len(found.ranks)
    ratios = np.round(waits / cell_ns, 3).tolist()
    return {"group": "waiting", "tracks": len(found.ranks), "busy_ratio": ratios}


def _waits_of(found: RankTimeline, rank: RankStep) -> Intervals:
    events, peers = found.together.events, found.together.peers
    at = rank.events[peers.waited_ns[rank.events] > 0]
    start_ns = events.start_ns[at] + found.move_ns(rank)
    return Intervals(*union(start_ns, start_ns + peers.waited_ns[at]))


def _rank(found: RankTimeline, rank: RankStep) -> Document:
    together, capture = found.together, rank.capture
    clock = together.clock(capture.process)
    at = rank.events
    is_collective = together.events.kind[at] == SynchronizationKind.COLLECTIVE
    length_ns = (together.events.end_ns[at] - together.events.start_ns[at])[is_collective]
    return {
        **process_document(together.profile.processes[capture.process]),
        "title": process_title(together.profile.processes[capture.process]),
        "capture": capture.index,
        "why": rank.why,
        "start_ns": capture.start_ns + found.move_ns(rank),
        "duration_ns": capture.duration_ns,
        "collectives": int(is_collective.sum()),
        "collectives_ns": int(length_ns.sum()),
        "matched": rank.matched,
        "last": rank.last,
        "waited_ns": rank.waited_ns if rank.matched else None,
        "is_reference": capture.process == together.clocks.reference,
        "offset_ns": None if isinstance(clock.offset_ns, Missing) else clock.offset_ns,
        "error_ns": None if isinstance(clock.error_ns, Missing) else clock.error_ns,
        "basis": clock.basis,
        "missing": clock.offset_ns.reason if isinstance(clock.offset_ns, Missing) else None,
    }


def _worst_error_ns(found: RankTimeline) -> int | None:
    errors = [found.together.clock(rank.capture.process).error_ns for rank in found.ranks]
    known: Sequence[int] = [error for error in errors if not isinstance(error, Missing)]
    return max(known, default=None)


# Of more members, those that came last are named; of more events, those that cost most are listed.
MOST_MEMBERS = 16
MOST_MEETINGS = 1_000


def met_documents(found: RankTimeline) -> dict[str, Document]:
    """Return the synchronization events of the ranks that are drawn, by number."""
    peers = found.together.peers
    at = np.concatenate([rank.events for rank in found.ranks])
    at = at[peers.group[at] >= 0]
    if not len(at):
        return {}
    order = at[np.argsort(peers.group[at], kind="stable")]
    numbers, firsts = np.unique(peers.group[order], return_index=True)
    groups = [
        (int(number), members)
        for number, members in zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True)
    ]
    longest = sorted(groups, key=lambda group: -_waited_ns(found, group[1]))[:MOST_MEETINGS]
    return {str(number): event_document(found, members) for number, members in sorted(longest)}


def _waited_ns(found: RankTimeline, members: Int64s) -> int:
    return int(np.maximum(found.together.peers.waited_ns[members], 0).sum())


def event_document(found: RankTimeline, members: Int64s) -> Document:
    """Return one event; `behind_ns` is how long its last rank came after the one before."""
    together = found.together
    events, peers = together.events, together.peers
    by_start = members[np.argsort(-events.start_ns[members], kind="stable")]
    first = int(members[0])
    last = int(peers.last[first])
    is_collective = events.kind[first] == SynchronizationKind.COLLECTIVE
    is_known = is_collective and last >= 0 and len(by_start) > 1
    # Ranks that are not drawn are not shown, but the last one is named all the same.
    in_all = int((peers.group == peers.group[first]).sum())
    return {
        "kind": "collective" if is_collective else "send",
        "count": in_all,
        "last": int(events.process[last]) if last >= 0 else None,
        "last_title": _title(found, last) if last >= 0 else None,
        "behind_ns": _behind_ns(found, first) if is_known else None,
        "error_ns": _error_ns(found, last) if is_known else None,
        "waited_ns": _waited_ns(found, members),
        "members": [_member(found, int(at)) for at in by_start[:MOST_MEMBERS]],
    }


def _behind_ns(found: RankTimeline, first: int) -> int:
    """Return how long the last of all came after the one before it."""
    events, peers = found.together.events, found.together.peers
    known = np.flatnonzero((peers.group == peers.group[first]) & (peers.waited_ns >= 0))
    starts_ns = np.sort(events.start_ns[known])
    return int(starts_ns[-1] - starts_ns[-2])


def _error_ns(found: RankTimeline, last: int) -> int | None:
    error_ns = found.together.clock(int(found.together.events.process[last])).error_ns
    return None if isinstance(error_ns, Missing) else error_ns


def _member(found: RankTimeline, at: int) -> Document:
    events, peers = found.together.events, found.together.peers
    rank = next(
        rank_step for rank_step in found.ranks if rank_step.capture.process == events.process[at]
    )
    waited_ns = int(peers.waited_ns[at])
    return {
        "id": f"m{at}",
        "title": _title(found, at),
        "capture": rank.capture.index,
        "start_ns": int(events.start_ns[at]) + found.move_ns(rank),
        "length_ns": int(events.end_ns[at] - events.start_ns[at]),
        "waited_ns": waited_ns if waited_ns >= 0 else None,
        "bytes": int(events.bytes[at]) or None,
    }


def _title(found: RankTimeline, at: int) -> str:
    process = found.together.profile.processes[int(found.together.events.process[at])]
    return f"{process.host} {process.label}" if process.rank is None else f"rank {process.rank}"
