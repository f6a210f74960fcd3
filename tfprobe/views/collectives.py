"""Tell of each collective how long it took, and of that moving bytes and waiting for peers.

A rank that comes early to a collective waits in it for the last one. Where several ranks recorded
the same step, the time in which all of them were inside the same execution moves bytes, and the
rest of each rank's time is waiting: the definition of torch_tb_profiler, which takes the shortest
of the ranks. Of one rank alone the two cannot be told apart.

Ranks on one host have one clock. Those on others are moved so that collectives end together, by the
median over all of them; what the ends then still differ is told beside the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.executions import Executions, Place
from tfprobe.model.profile import Profile
from tfprobe.model.tables import Flags, Int64s
from tfprobe.views.collective_rows import CARRIERS, is_collective, launches
from tfprobe.views.copies import accelerators
from tfprobe.views.intervals import Intervals, intersection, union
from tfprobe.views.origins import Origins
from tfprobe.views.sizes import outputs_bytes
from tfprobe.views.transfers import Busy

ONE_RANK = Missing(
    "only one rank recorded these steps, and waiting shows only beside the others: record all of "
    "them with the same --every or --steps"
)
_S = 1e9
# Of an op that goes on by itself there is a row of the thread that started it; from TensorFlow 2.5
# on one on this lane, from its start until it is done; and one of the thread that carried it out.
_ASYNC_LANE = "async"
_UNKNOWN = -1
# A row, the start and the end of the execution it is of, and how long that was queued.
_Run = tuple[int, int, int, int]
_Turn = tuple[int, int, int]
# Host ops that compute nothing themselves: they call functions, or wait.
_NO_WORK = (
    "PartitionedCall",
    "StatefulPartitionedCall",
    "While",
    "StatelessWhile",
    "If",
    "StatelessIf",
    "Case",
    "_Send",
    "_Recv",
    "_HostSend",
    "_HostRecv",
    "RecvTensor",
    "IteratorGetNext",
    "RemoteCall",
)


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of one op, over sampled steps and ranks.

    `time_ns` is summed over its executions; `moving_ns` and `waiting_ns` over those `matched` with
    other ranks'. `queued_ns` is from its launch to its start, summed over the `queued` executions
    of which that is known. `bytes` are those of the tensors of the `sized` ones, which took
    `sized_ns`.
    """

    op: str
    op_type: str
    layer: str
    count: int
    sized: int
    bytes: int
    time_ns: int
    sized_ns: int
    queued: int
    queued_ns: int
    matched: int
    moving_ns: int
    waiting_ns: int
    moved_bytes: int

    @property
    def bytes_per_s(self) -> float | Missing:
        """Return bytes by time: NCCL's "algorithm bandwidth", of the time that moved bytes where
        that is known, else of all of it.
        """
        if self.moved_bytes and self.moving_ns:
            return self.moved_bytes / self.moving_ns * _S
        if not self.sized_ns:
            return Missing("neither the recording nor the graph tells how large these tensors are")
        return self.bytes / self.sized_ns * _S


@dataclass(frozen=True, slots=True)
class Rank:
    """What a rank did in the collectives that were matched with those of other ranks.

    `last` counts those to which it came last, so that all others waited for it.
    """

    process: int
    rank: int | None
    host: str
    matched: int
    moving_ns: int
    waiting_ns: int
    last: int


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of the sampled steps, the longest first, and the ranks.

    `ranks` says why it is missing where waiting is not known. `clock` says how far apart the clocks
    of the ranks may be, None where they are one host's.
    """

    steps: int
    kinds: tuple[Collective, ...]
    busy: Busy
    ranks: tuple[Rank, ...] | Missing
    clock_error_ns: int | None


@dataclass(frozen=True, slots=True)
class _Runs:
    """Executions of collectives, one a row of the columns. `row` is one of its rows; `nth` counts
    those of a name in a step; `queued_ns` is -1 where it is not known.
    """

    row: Int64s
    nth: Int64s
    start_ns: Int64s
    end_ns: Int64s
    queued_ns: Int64s

    @property
    def duration_ns(self) -> Int64s:
        return self.end_ns - self.start_ns


def collectives(profile: Profile, origins: Origins) -> Collectives | Missing:
    """Return the collectives of the sampled steps, or why there are none.

    The captures of the profile are those of one work, in all ranks.
    """
    rows = profile.executions
    if not profile.captures:
        return Missing("no step was sampled")
    found = is_collective(rows, profile.spans)
    if not found.any():
        return Missing("the sampled steps have no collective")
    runs = _runs(profile, found)
    moving_ns, is_last, clock_error_ns = _matched(profile, runs)
    return Collectives(
        steps=len(profile.captures),
        kinds=_kinds(profile, runs, moving_ns, origins),
        busy=_busy(rows, runs, found),
        ranks=_ranks(profile, runs, moving_ns, is_last),
        clock_error_ns=clock_error_ns,
    )


def _runs(profile: Profile, found: Flags) -> _Runs:
    """Return the executions, by capture, name and start: of kernels where a step has any."""
    rows = profile.executions
    kernels = _sorted(rows, np.flatnonzero(found & (rows.place == Place.ACCELERATOR)))
    of_ops = found & (rows.place == Place.HOST) & ~rows.background
    of_ops &= ~np.isin(rows.capture, np.unique(rows.capture[kernels]))
    runs = [*_kernel_runs(profile, kernels), *_op_runs(rows, np.flatnonzero(of_ops))]
    row, start_ns, end_ns, queued_ns = np.array(runs, dtype=np.int64).reshape(-1, 4).T
    order = np.lexsort((start_ns, _keys(rows, row)))
    row = row[order]
    return _Runs(row, _nth(_keys(rows, row)), start_ns[order], end_ns[order], queued_ns[order])


def _kernel_runs(profile: Profile, kernels: Int64s) -> Iterator[_Run]:
    """Give the executions that kernels are; they queue behind their launch."""
    rows, spans = profile.executions, profile.spans
    span = launches(rows, spans)[kernels]
    for at, call in zip(kernels.tolist(), span.tolist(), strict=True):
        start_ns, duration_ns = int(rows.start_ns[at]), int(rows.duration_ns[at])
        queued_ns = _UNKNOWN
        if call >= 0:
            launched_ns = int(spans.start_ns[call] + spans.duration_ns[call])
            queued_ns = max(start_ns - launched_ns, 0)
        yield at, start_ns, start_ns + duration_ns, queued_ns


def _op_runs(rows: Executions, ops: Int64s) -> Iterator[_Run]:
    """Give the executions that rows of ops tell of, of which each may have up to three."""
    texts = rows.strings.values
    is_whole = np.array([text == _ASYNC_LANE for text in texts], dtype=np.bool_)[rows.lane[ops]]
    is_carrier = np.array([CARRIERS in text for text in texts], dtype=np.bool_)[rows.lane[ops]]
    whole = _by_turn(rows, ops[is_whole])
    carried = _by_turn(rows, ops[is_carrier])
    started = _by_turn(rows, ops[~is_whole & ~is_carrier])
    finished = {name for name, _, _ in (*whole, *carried)}
    for turn, at in whole.items():
        yield _run(rows, at, at, carried.get(turn))
    for turn, at in carried.items():
        if turn not in whole:
            launch = started.get(turn, at)
            is_before = rows.start_ns[launch] <= rows.start_ns[at]
            yield _run(rows, launch if is_before else at, at, at if launch != at else None)
    for turn, at in started.items():
        # Where others of the name tell when they were done, one that does not was still going on.
        if turn[0] not in finished:
            yield _run(rows, at, at, None)


def _by_turn(rows: Executions, at: Int64s) -> dict[_Turn, int]:
    """Return rows by their name, capture, and how many of the name came before in it."""
    at = _sorted(rows, at)
    nth = _nth(_keys(rows, at))
    turns = zip(rows.name[at].tolist(), rows.capture[at].tolist(), nth.tolist(), strict=True)
    return dict(zip(turns, at.tolist(), strict=True))


def _run(rows: Executions, first: int, last: int, carrier: int | None) -> _Run:
    """Return an execution from the start of one row to the end of another."""
    start_ns = int(rows.start_ns[first])
    queued_ns = _UNKNOWN if carrier is None else max(int(rows.start_ns[carrier]) - start_ns, 0)
    return last, start_ns, int(rows.start_ns[last] + rows.duration_ns[last]), queued_ns


def _keys(rows: Executions, at: Int64s) -> Int64s:
    width = len(rows.strings.values) + 1
    keys: Int64s = rows.capture[at].astype(np.int64) * width + rows.name[at]
    return keys


def _sorted(rows: Executions, at: Int64s) -> Int64s:
    found: Int64s = at[np.lexsort((rows.start_ns[at], _keys(rows, at)))]
    return found


def _nth(keys: Int64s) -> Int64s:
    """Return the place of each among those with its key, which stand together."""
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else keys
    counts = np.diff(np.concatenate((first, [len(keys)])))
    return np.arange(len(keys), dtype=np.int64) - np.repeat(first, counts)


def _matched(profile: Profile, runs: _Runs) -> tuple[Int64s, Flags, int | None]:
    """Return how long each execution moved bytes, -1 where no other rank was seen; which of them
    came last; and how far apart the clocks may be.
    """
    rows = profile.executions
    start_ns, end_ns = runs.start_ns.copy(), runs.end_ns.copy()
    capture = rows.capture[runs.row]
    process = _of_captures([each.process for each in profile.captures])[capture]
    step = _of_captures([each.step for each in profile.captures])[capture]
    group = _groups(np.stack((step, rows.name[runs.row].astype(np.int64), runs.nth)))
    ranks = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    pairs = np.unique(np.stack((group, process)), axis=1)
    np.add.at(ranks, pairs[0], 1)
    is_matched = (ranks > 1)[group]
    clock_error_ns = _align(profile, group, process, is_matched, start_ns, end_ns)
    first_ns = np.full(len(ranks), np.iinfo(np.int64).min)
    last_ns = np.full(len(ranks), np.iinfo(np.int64).max)
    shortest_ns = np.full(len(ranks), np.iinfo(np.int64).max)
    np.maximum.at(first_ns, group, start_ns)
    np.minimum.at(last_ns, group, end_ns)
    np.minimum.at(shortest_ns, group, end_ns - start_ns)
    common_ns = last_ns - first_ns
    # None ends before all have begun. Where the clocks say so they are wrong, and the rank that
    # took the least time is the best there is.
    moving_ns = np.where(common_ns > 0, common_ns, shortest_ns)
    found = np.where(is_matched, np.minimum(moving_ns[group], end_ns - start_ns), -1)
    return found, is_matched & (start_ns == first_ns[group]), clock_error_ns


def _of_captures(values: Sequence[int]) -> Int64s:
    return np.array(values, dtype=np.int64)


def _groups(columns: Int64s) -> Int64s:
    found: Int64s = np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1)
    return found


def _align(
    profile: Profile,
    group: Int64s,
    process: Int64s,
    is_matched: Flags,
    start_ns: Int64s,
    end_ns: Int64s,
) -> int | None:
    """Move the times of ranks on other hosts so that collectives end together.

    Returns the median of what their ends still differ, None where all are of one host.
    """
    hosts = {each.index: each.host for each in profile.processes}
    seen = np.unique(process[is_matched]).tolist()
    if len({hosts[each] for each in seen}) < 2:
        return None
    reference = seen[0]
    end_of_group = dict(
        zip(
            group[is_matched & (process == reference)].tolist(),
            end_ns[is_matched & (process == reference)].tolist(),
            strict=True,
        )
    )
    rests = []
    for each in seen:
        if hosts[each] == hosts[reference]:
            continue
        mine = np.flatnonzero(is_matched & (process == each))
        mine = mine[np.isin(group[mine], list(end_of_group))]
        behind_ns = end_ns[mine] - np.array([end_of_group[at] for at in group[mine].tolist()])
        if len(mine):
            offset_ns = int(np.median(behind_ns))
            start_ns[process == each] -= offset_ns
            end_ns[process == each] -= offset_ns
            rests.append(np.abs(behind_ns - offset_ns))
    return int(np.median(np.concatenate(rests))) if rests else None


def _kinds(
    profile: Profile, runs: _Runs, moving_ns: Int64s, origins: Origins
) -> tuple[Collective, ...]:
    rows = profile.executions
    size = _sizes(profile, runs, origins)
    duration_ns = runs.duration_ns
    found = []
    for name in np.unique(rows.name[runs.row]).tolist():
        mine = rows.name[runs.row] == name
        matched, sized = mine & (moving_ns >= 0), mine & (size > 0)
        queued = mine & (runs.queued_ns >= 0)
        origin = origins.of(rows.strings[name])
        both = matched & sized
        found.append(
            Collective(
                op=origin.op,
                op_type=rows.strings[rows.op_type[runs.row[mine]][0]],
                layer=origin.layer,
                count=int(mine.sum()),
                sized=int(sized.sum()),
                bytes=int(size[sized].sum()),
                time_ns=int(duration_ns[mine].sum()),
                sized_ns=int(duration_ns[sized].sum()),
                queued=int(queued.sum()),
                queued_ns=int(runs.queued_ns[queued].sum()),
                matched=int(matched.sum()),
                moving_ns=int(moving_ns[matched].sum()),
                waiting_ns=int((duration_ns - moving_ns)[matched].sum()),
                moved_bytes=int(size[both].sum()) if (both == matched).all() else 0,
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.time_ns, each.op)))


def _sizes(profile: Profile, runs: _Runs, origins: Origins) -> Int64s:
    """Return the bytes of each execution: as recorded, else as its shape tells; 0 unknown."""
    rows = profile.executions
    told = np.maximum(rows.output_bytes[runs.row], 0)
    by_name: dict[int, int] = {}
    for name in np.unique(rows.name[runs.row[told == 0]]).tolist():
        node = origins.node(rows.strings[name])
        by_name[name] = (outputs_bytes(node, origins.shapes) if node else None) or 0
    shaped = np.array([by_name.get(at, 0) for at in rows.name[runs.row].tolist()], dtype=np.int64)
    return np.where(told > 0, told, shaped)


def _busy(rows: Executions, runs: _Runs, found: Flags) -> Busy:
    """Return how long collectives were under way, and how much of that computation hid.

    Computation is other kernels of the accelerator; of ops on a host, other ops of the process.
    """
    accelerator = accelerators(rows)
    no_work = np.array([text.startswith(_NO_WORK) for text in rows.strings.values], dtype=np.bool_)
    is_kernel = rows.place == Place.ACCELERATOR
    is_work = ~found & ~rows.background & ~no_work[rows.op_type]
    is_work &= is_kernel | (rows.place == Place.HOST)
    width = len(rows.strings.values) + 2
    place = np.where(is_kernel, accelerator.astype(np.int64) + 2, 0)
    key = rows.capture.astype(np.int64) * width + place
    work = np.flatnonzero(is_work)
    work = work[np.argsort(key[work], kind="stable")]
    order = np.argsort(key[runs.row], kind="stable")
    of_work, of_runs = key[work], key[runs.row][order]
    busy_ns = hidden_ns = 0
    for each in np.unique(of_runs).tolist():
        mine = work[slice(*np.searchsorted(of_work, [each, each + 1]))]
        ours = order[slice(*np.searchsorted(of_runs, [each, each + 1]))]
        under_way = union(runs.start_ns[ours], runs.end_ns[ours])
        busy_ns += under_way.length_ns
        hidden_ns += intersection(under_way, _union(rows, mine)).length_ns
    return Busy(busy_ns, hidden_ns)


def _union(rows: Executions, at: Int64s) -> Intervals:
    return union(rows.start_ns[at], rows.start_ns[at] + rows.duration_ns[at])


def _ranks(
    profile: Profile, runs: _Runs, moving_ns: Int64s, is_last: Flags
) -> tuple[Rank, ...] | Missing:
    if not (moving_ns >= 0).any():
        return ONE_RANK
    return tuple(_each_rank(profile, runs, moving_ns, is_last))


def _each_rank(profile: Profile, runs: _Runs, moving_ns: Int64s, is_last: Flags) -> Iterator[Rank]:
    rows = profile.executions
    processes = _of_captures([each.process for each in profile.captures])
    process = processes[rows.capture[runs.row]]
    known: Mapping[int, tuple[int | None, str]] = {
        each.index: (each.rank, each.host) for each in profile.processes
    }
    for each in np.unique(process[moving_ns >= 0]).tolist():
        mine = (process == each) & (moving_ns >= 0)
        yield Rank(
            process=each,
            rank=known[each][0],
            host=known[each][1],
            matched=int(mine.sum()),
            moving_ns=int(moving_ns[mine].sum()),
            waiting_ns=int((runs.duration_ns - moving_ns)[mine].sum()),
            last=int(is_last[mine].sum()),
        )
