"""Tell what parameter servers do for whom: tensors to and from each, and how long ops ran there.

A worker's recording of TensorFlow 1 tells it. In TensorFlow 2 workers record nothing of servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.tables import Flags
from tfprobe.views.meetings import MeetingKind, Meetings
from tfprobe.views.rank_parts import SERVER, RankPart
from tfprobe.views.sends import task_of

UNSEEN = Missing("no recorded step tells of a tensor that it sent or received")
NOTHING = Missing("no recorded step exchanges tensors with a parameter server")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a process and a server sent each other: `pulled` from the server, `pushed` to it.

    `receiving_ns` is the time of the receives, which is mostly waiting for what is sent to be made.
    """

    process: int
    pulled_bytes: int
    pushed_bytes: int
    receives: int
    receiving_ns: int


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """What a parameter server did in the recorded steps, over all processes that exchanged with it.

    `bytes` and `receiving_ns` are of all exchanges, Missing where none was recorded. `busy_ns` is
    how long ops ran there, as the workers recorded them; Missing where none did.
    """

    server: str
    exchanges: tuple[Exchange, ...]
    busy_ns: int | Missing

    @property
    def bytes(self) -> int | Missing:
        if not self.exchanges:
            return UNSEEN
        return sum(each.pulled_bytes + each.pushed_bytes for each in self.exchanges)

    @property
    def receiving_ns(self) -> int | Missing:
        if not self.exchanges:
            return UNSEEN
        return sum(each.receiving_ns for each in self.exchanges)


@dataclass(frozen=True, slots=True)
class Servers:
    """All parameter servers by name. `imbalance_ratio` is the bytes of the one with most over their
    mean: 1 where all have as much, Missing where none moved.
    """

    loads: tuple[ServerLoad, ...]
    imbalance_ratio: float | Missing


def servers(parts: Sequence[RankPart], meetings: Meetings) -> Servers | Missing:
    """Return the load of the parameter servers. `meetings` are those of all parts."""
    exchanges = _exchanges(meetings)
    busy: dict[str, int] = {}
    for part in parts:
        for each in part.served:
            busy[each.server] = busy.get(each.server, 0) + each.busy_ns
    names = sorted({*busy, *(server for server, _ in exchanges)})
    if not names:
        return NOTHING
    untold = Missing("no recorded step ran an op there")
    loads = tuple(
        ServerLoad(
            server=name,
            exchanges=tuple(each for (server, _), each in exchanges.items() if server == name),
            busy_ns=busy.get(name, untold),
        )
        for name in names
    )
    return Servers(loads, _imbalance([each.bytes for each in loads]))


def _imbalance(moved: Sequence[int | Missing]) -> float | Missing:
    # Through a server of which no tensor is told none may have gone.
    known = [0 if isinstance(each, Missing) else each for each in moved]
    mean = sum(known) / len(known)
    return max(known) / mean if mean else UNSEEN


def _exchanges(meetings: Meetings) -> dict[tuple[str, int], Exchange]:
    """Return what each process and server sent each other, by server and process."""
    texts = meetings.strings.values
    of_server = [task_of(text) if SERVER in text else "" for text in texts]
    is_server = np.array([bool(text) for text in of_server], dtype=np.bool_)
    # A Recv of the graph waits for the RecvTensor of the same tensor, which has its size.
    rpcs = np.array([text == "RecvTensor" for text in texts], dtype=np.bool_)[meetings.op]
    found: dict[tuple[str, int], Exchange] = {}
    for column, pulls in ((meetings.source, True), (meetings.target, False)):
        chosen = (meetings.kind == MeetingKind.RECV) & rpcs & is_server[column]
        for at in np.unique(column[chosen]).tolist():
            for process in np.unique(meetings.process[chosen & (column == at)]).tolist():
                mine = chosen & (column == at) & (meetings.process == process)
                key = of_server[at], process
                found[key] = _more(found.get(key), process, meetings, mine, pulls=pulls)
    return dict(sorted(found.items()))


def _more(
    known: Exchange | None, process: int, meetings: Meetings, mine: Flags, *, pulls: bool
) -> Exchange:
    told = known or Exchange(process, 0, 0, 0, 0)
    size = int(meetings.bytes[mine].sum())
    return Exchange(
        process=process,
        pulled_bytes=told.pulled_bytes + (size if pulls else 0),
        pushed_bytes=told.pushed_bytes + (0 if pulls else size),
        receives=told.receives + int(mine.sum()),
        receiving_ns=told.receiving_ns + int((meetings.end_ns - meetings.start_ns)[mine].sum()),
    )
