"""Find out who waits for whom: in collectives for the last to come, in receives for the sender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.distributed.clocks import Clocks
from tfprobe.analysis.distributed.rank_parts import SERVER, RankPart
from tfprobe.analysis.distributed.synchronization_events import (
    MatchedRuns,
    SynchronizationEvents,
    SynchronizationKind,
    groups,
)
from tfprobe.analysis.distributed.synchronization_matrix import event_groups
from tfprobe.analysis.transfers.sends import task_of
from tfprobe.errors import Missing
from tfprobe.profile.tables import Flags, Int64s

NO_EVENT = Missing(
    "no two processes traced the same step with a collective: record the same steps in all "
    "of them, with --every or --steps"
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a process did in events that were also recorded in other processes.

    It came last to `last` of the `matched` collectives. It waited `waiting_ns` for others in
    collectives and receives, and all others together waited `caused_ns` for it.
    """

    process: int
    matched: int
    last: int
    waiting_ns: int
    caused_ns: int

    @property
    def last_ratio(self) -> float:
        return self.last / self.matched if self.matched else 0.0


@dataclass(frozen=True, slots=True)
class Wait:
    """How long process `who` waited for process `whom`, in `count` events."""

    who: int
    whom: int
    count: int
    waiting_ns: int


@dataclass(frozen=True, slots=True)
class Waits:
    """Who waits for whom in traced steps: each process, and pairs, the longest wait first.

    `steps` counts those with an event that several processes recorded.
    """

    turns: tuple[Turn, ...]
    pairs: tuple[Wait, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class CollectiveWaits:
    """How long executions of collectives waited that were also recorded in other processes.

    For each execution, `row` is that of the event, and `whom` the process that came last, whose own
    `waiting_ns` is 0.
    """

    row: Int64s
    whom: Int64s
    waiting_ns: Int64s


def waits(
    events: SynchronizationEvents, clocks: Clocks, generation: Sequence[int]
) -> Waits | Missing:
    """Return who waits for whom, without processes whose clocks are unknown."""
    if not len(events):
        return NO_EVENT
    start_ns, end_ns, group = _met(events, clocks, generation)
    joint = np.flatnonzero(events.kind == SynchronizationKind.COLLECTIVE)
    found = [
        _of_others(events, _in_collectives(events, group, joint, start_ns, end_ns)),
        _in_receives(events, group, start_ns, end_ns),
    ]
    who, whom, waiting_ns = (np.concatenate(each) for each in zip(*found, strict=True))
    if not len(who):
        return NO_EVENT
    count = int(events.process.max()) + 1
    return Waits(
        turns=_turns(events, group, joint, start_ns, end_ns, (who, whom, waiting_ns), count),
        pairs=_pairs(who, whom, waiting_ns, count),
        steps=_steps(events, group),
    )


def waits_in_collectives(
    events: SynchronizationEvents, clocks: Clocks, generation: Sequence[int]
) -> CollectiveWaits:
    """Return how long each execution of a collective waited, by the known clocks."""
    start_ns, end_ns, group = _met(events, clocks, generation)
    joint = np.flatnonzero(events.kind == SynchronizationKind.COLLECTIVE)
    return _in_collectives(events, group, joint, start_ns, end_ns)


def _met(
    events: SynchronizationEvents, clocks: Clocks, generation: Sequence[int]
) -> tuple[Int64s, Int64s, Int64s]:
    """Return start and end of each event on one clock, and its group."""
    start_ns, end_ns, is_set = _on_one_clock(events, clocks)
    group = event_groups(events, generation)
    # With an unknown clock, each execution is an event of its own.
    group[~is_set] = len(group) + np.flatnonzero(~is_set)
    return start_ns, end_ns, group


def _on_one_clock(events: SynchronizationEvents, clocks: Clocks) -> tuple[Int64s, Int64s, Flags]:
    start_ns, end_ns = events.start_ns.copy(), events.end_ns.copy()
    is_set = np.ones(len(start_ns), dtype=np.bool_)
    for clock in clocks.clocks:
        mine = np.flatnonzero(events.process == clock.process)
        start, end = clock.on_reference(start_ns[mine]), clock.on_reference(end_ns[mine])
        if isinstance(start, Missing) or isinstance(end, Missing):
            is_set[mine] = False
            continue
        start_ns[mine], end_ns[mine] = start, end
    return start_ns, end_ns, is_set


def _in_collectives(
    events: SynchronizationEvents, group: Int64s, joint: Int64s, start_ns: Int64s, end_ns: Int64s
) -> CollectiveWaits:
    process = events.process[joint].astype(np.int64)
    met = MatchedRuns.of(groups(group[joint][np.newaxis]), process, start_ns[joint], end_ns[joint])
    whom = process[met.last] if len(joint) else process
    waiting_ns = np.maximum(end_ns[joint] - start_ns[joint] - met.moving_ns, 0)
    waiting_ns[whom == process] = 0
    known = met.is_matched
    return CollectiveWaits(joint[known], whom[known], waiting_ns[known])


def _of_others(
    events: SynchronizationEvents, waits: CollectiveWaits
) -> tuple[Int64s, Int64s, Int64s]:
    """Return who waited for whom and how long, without those that came last."""
    process = events.process[waits.row].astype(np.int64)
    waited = waits.whom != process
    return process[waited], waits.whom[waited], waits.waiting_ns[waited]


def _in_receives(
    events: SynchronizationEvents, group: Int64s, start_ns: Int64s, end_ns: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Return how long receives waited until their tensor was sent."""
    count = int(group.max(initial=-1)) + 1
    sends = np.flatnonzero(events.kind == SynchronizationKind.SEND)
    receives = np.flatnonzero(events.kind == SynchronizationKind.RECV)
    sender = np.full(count, -1, dtype=np.int64)
    sender[group[sends]] = sends
    # Ranks run the same program: if several send under one name, it is unknown which was received.
    several = np.bincount(group[sends], minlength=count) > 1
    sender[several] = -1
    at = sender[group[receives]]
    process = events.process.astype(np.int64)
    known = (at >= 0) & (process[at] != process[receives])
    receives, at = receives[known], at[known]
    late_ns = np.minimum(start_ns[at], end_ns[receives]) - start_ns[receives]
    return process[receives], process[at], np.maximum(late_ns, 0)


def _turns(
    events: SynchronizationEvents,
    group: Int64s,
    joint: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    waited: tuple[Int64s, Int64s, Int64s],
    count: int,
) -> tuple[Turn, ...]:
    process = events.process[joint].astype(np.int64)
    met = MatchedRuns.of(groups(group[joint][np.newaxis]), process, start_ns[joint], end_ns[joint])
    who, whom, waiting_ns = waited
    matched = np.bincount(process[met.is_matched], minlength=count)
    last = np.bincount(process[met.is_last], minlength=count)
    waiting = _sums(who, waiting_ns, count)
    caused = _sums(whom, waiting_ns, count)
    seen = np.flatnonzero((matched > 0) | (waiting > 0) | (caused > 0))
    return tuple(
        Turn(at, int(matched[at]), int(last[at]), int(waiting[at]), int(caused[at]))
        for at in seen.tolist()
    )


def _pairs(who: Int64s, whom: Int64s, waiting_ns: Int64s, count: int) -> tuple[Wait, ...]:
    keys, inverse, times = np.unique(who * count + whom, return_inverse=True, return_counts=True)
    total = _sums(inverse.reshape(-1), waiting_ns, len(keys))
    order = np.lexsort((keys, -total))
    return tuple(
        Wait(int(keys[at]) // count, int(keys[at]) % count, int(times[at]), int(total[at]))
        for at in order.tolist()
        if total[at] > 0
    )


def _sums(at: Int64s, values: Int64s, count: int) -> Int64s:
    found = np.zeros(count, dtype=np.int64)
    np.add.at(found, at, values)
    return found


def _steps(events: SynchronizationEvents, group: Int64s) -> int:
    """Count the steps in which several processes had the same event."""
    several = np.bincount(groups(group[np.newaxis])) > 1
    met = several[groups(group[np.newaxis])]
    pairs = np.stack((events.loop[met].astype(np.int64), events.step[met]))
    return len(np.unique(pairs, axis=1).T)


UNSEEN = Missing("no traced step sent or received a tensor")
NOTHING = Missing("no traced step exchanges tensors with a parameter server")


@dataclass(frozen=True, slots=True)
class SendExchange:
    """What a process and a server sent each other: `pulled` from the server, `pushed` to it.

    `receiving_ns` is the time of the receives, mostly waiting for what is sent to be computed.
    """

    process: int
    pulled_bytes: int
    pushed_bytes: int
    receives: int
    receiving_ns: int


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """What a parameter server did in the traced steps, over all processes that exchanged with it.

    `bytes` and `receiving_ns` are of all exchanges, Missing if none was recorded. `busy_ns` is how
    long ops ran there, as recorded by the workers; Missing if none did.
    """

    server: str
    exchanges: tuple[SendExchange, ...]
    busy_ns: int | Missing

    @property
    def bytes(self) -> int | Missing:
        if not self.exchanges:
            return UNSEEN
        return sum(exchange.pulled_bytes + exchange.pushed_bytes for exchange in self.exchanges)

    @property
    def receiving_ns(self) -> int | Missing:
        if not self.exchanges:
            return UNSEEN
        return sum(exchange.receiving_ns for exchange in self.exchanges)


@dataclass(frozen=True, slots=True)
class Servers:
    """All parameter servers by name. `imbalance_ratio` is the bytes of the server with the most
    divided by the mean: 1 if all have the same, Missing if there are none.
    """

    loads: tuple[ServerLoad, ...]
    imbalance_ratio: float | Missing


def servers(parts: Sequence[RankPart], events: SynchronizationEvents) -> Servers | Missing:
    """Return the load of the parameter servers. `events` are those of all parts."""
    exchanges = _exchanges(events)
    busy: dict[str, int] = {}
    for part in parts:
        for each in part.served:
            busy[each.server] = busy.get(each.server, 0) + each.busy_ns
    names = sorted({*busy, *(server for server, _ in exchanges)})
    if not names:
        return NOTHING
    untold = Missing("no traced step ran an op there")
    loads = tuple(
        ServerLoad(
            server=name,
            exchanges=tuple(each for (server, _), each in exchanges.items() if server == name),
            busy_ns=busy.get(name, untold),
        )
        for name in names
    )
    return Servers(loads, _imbalance([load.bytes for load in loads]))


def _imbalance(moved: Sequence[int | Missing]) -> float | Missing:
    # A server without recorded tensors may have exchanged none.
    known = [0 if isinstance(amount, Missing) else amount for amount in moved]
    mean = sum(known) / len(known)
    return max(known) / mean if mean else UNSEEN


def _exchanges(events: SynchronizationEvents) -> dict[tuple[str, int], SendExchange]:
    """Return what each process and server sent each other, by server and process."""
    texts = events.strings.values
    of_server = [task_of(text) if SERVER in text else "" for text in texts]
    is_server = np.array([bool(text) for text in of_server], dtype=np.bool_)
    # A Recv of the graph waits for the RecvTensor of the same tensor, which has the size.
    rpcs = np.array([text == "RecvTensor" for text in texts], dtype=np.bool_)[events.op]
    exchanges: dict[tuple[str, int], SendExchange] = {}
    for column, pulls in ((events.source, True), (events.target, False)):
        chosen = (events.kind == SynchronizationKind.RECV) & rpcs & is_server[column]
        for at in np.unique(column[chosen]).tolist():
            for process in np.unique(events.process[chosen & (column == at)]).tolist():
                mine = chosen & (column == at) & (events.process == process)
                key = of_server[at], process
                exchanges[key] = _more(exchanges.get(key), process, events, mine, pulls=pulls)
    return dict(sorted(exchanges.items()))


def _more(
    known: SendExchange | None,
    process: int,
    events: SynchronizationEvents,
    mine: Flags,
    *,
    pulls: bool,
) -> SendExchange:
    sums = known or SendExchange(process, 0, 0, 0, 0)
    size = int(events.bytes[mine].sum())
    return SendExchange(
        process=process,
        pulled_bytes=sums.pulled_bytes + (size if pulls else 0),
        pushed_bytes=sums.pushed_bytes + (0 if pulls else size),
        receives=sums.receives + int(mine.sum()),
        receiving_ns=sums.receiving_ns + int((events.end_ns - events.start_ns)[mine].sum()),
    )
