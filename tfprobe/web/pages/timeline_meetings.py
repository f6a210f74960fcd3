"""The meetings of a step that several ranks are drawn of: who came when, who last, who waited."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfprobe.analysis.distributed.synchronization_events import MeetingKind
from tfprobe.analysis.timeline.rank_timeline import Across
from tfprobe.errors import Missing
from tfprobe.profile.tables import Int64s

Document = dict[str, Any]  # Any: JSON, see docs/web.md

# Of more members those are named that came last, of more meetings those are told that cost most.
MOST_MEMBERS = 16
MOST_MEETINGS = 1_000


def met_documents(found: Across) -> dict[str, Document]:
    """Return the meetings by their numbers, of the ranks that are drawn."""
    peers = found.together.peers
    at = np.concatenate([each.meetings for each in found.ranks])
    at = at[peers.group[at] >= 0]
    if not len(at):
        return {}
    order = at[np.argsort(peers.group[at], kind="stable")]
    numbers, firsts = np.unique(peers.group[order], return_index=True)
    told = [
        (int(number), members)
        for number, members in zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True)
    ]
    dearest = sorted(told, key=lambda each: -_waited_ns(found, each[1]))[:MOST_MEETINGS]
    return {str(number): _document(found, members) for number, members in sorted(dearest)}


def _waited_ns(found: Across, members: Int64s) -> int:
    return int(np.maximum(found.together.peers.waited_ns[members], 0).sum())


def _document(found: Across, members: Int64s) -> Document:
    """Return one meeting; `behind_ns` is how long its last one came after the one before it."""
    together = found.together
    told, peers = together.meetings, together.peers
    by_start = members[np.argsort(-told.start_ns[members], kind="stable")]
    first = int(members[0])
    last = int(peers.last[first])
    is_collective = told.kind[first] == MeetingKind.COLLECTIVE
    is_told = is_collective and last >= 0 and len(by_start) > 1
    # Of ranks that are not drawn nobody sees anything, but the last one is named all the same.
    in_all = int((peers.group == peers.group[first]).sum())
    return {
        "kind": "collective" if is_collective else "send",
        "count": in_all,
        "last": int(told.process[last]) if last >= 0 else None,
        "last_title": _title(found, last) if last >= 0 else None,
        "behind_ns": _behind_ns(found, first) if is_told else None,
        "error_ns": _error_ns(found, last) if is_told else None,
        "waited_ns": _waited_ns(found, members),
        "members": [_member(found, int(at)) for at in by_start[:MOST_MEMBERS]],
    }


def _behind_ns(found: Across, first: int) -> int:
    """Return how long the last of all came after the one before it."""
    told, peers = found.together.meetings, found.together.peers
    known = np.flatnonzero((peers.group == peers.group[first]) & (peers.waited_ns >= 0))
    starts_ns = np.sort(told.start_ns[known])
    return int(starts_ns[-1] - starts_ns[-2])


def _error_ns(found: Across, last: int) -> int | None:
    error_ns = found.together.clock(int(found.together.meetings.process[last])).error_ns
    return None if isinstance(error_ns, Missing) else error_ns


def _member(found: Across, at: int) -> Document:
    told, peers = found.together.meetings, found.together.peers
    rank = next(each for each in found.ranks if each.capture.process == told.process[at])
    waited_ns = int(peers.waited_ns[at])
    return {
        "id": f"m{at}",
        "title": _title(found, at),
        "capture": rank.capture.index,
        "start_ns": int(told.start_ns[at]) + found.move_ns(rank),
        "length_ns": int(told.end_ns[at] - told.start_ns[at]),
        "waited_ns": waited_ns if waited_ns >= 0 else None,
        "bytes": int(told.bytes[at]) or None,
    }


def _title(found: Across, at: int) -> str:
    process = found.together.profile.processes[int(found.together.meetings.process[at])]
    return f"{process.host} {process.label}" if process.rank is None else f"rank {process.rank}"
