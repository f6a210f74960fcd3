"""Find the executions of collectives in traced steps, each once, however many rows it has.

It looks at one rank; `distributed.synchronization_events` matches those of several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.collective_ops import CARRIERS, is_collective, launches
from tfprobe.analysis.core.copies import accelerators
from tfprobe.analysis.core.intervals import Intervals, intersection, union
from tfprobe.analysis.transfers.bus_transfers import BusyTime
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, Int32s, Int64s, having

# An asynchronous op has a row on the thread that started it; from TensorFlow 2.5 on, one on this
# lane from its start to its end; and one on the thread that carried it out.
_ASYNC_LANE = "async"
_UNKNOWN = -1
# A row, the start and the end of its execution, and how long that was queued.
_Run = tuple[int, int, int, int]
_Turn = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CollectiveRuns:
    """Executions of collectives, as columns.

    `row` is one of its rows in the profile; `nth` counts those of a name in a step, and `part`
    those that all ranks call the same. `queued_ns` is -1 if unknown. `found` says for each row of
    the profile whether it is of a collective.
    """

    found: Flags
    row: Int64s
    nth: Int64s
    part: Int64s
    start_ns: Int64s
    end_ns: Int64s
    queued_ns: Int64s

    def __len__(self) -> int:
        return len(self.row)

    @property
    def duration_ns(self) -> Int64s:
        return self.end_ns - self.start_ns


def collective_runs(profile: Profile) -> CollectiveRuns:
    """Return the executions, by capture, name and start: those of kernels if a step has any."""
    rows = profile.executions
    found = is_collective(rows, profile.spans)
    kernels = _sorted(rows, np.flatnonzero(found & (rows.place == Place.ACCELERATOR)))
    of_ops = found & (rows.place == Place.HOST) & ~rows.background
    of_ops &= ~np.isin(rows.capture, np.unique(rows.capture[kernels]))
    runs = [*_kernel_runs(profile, kernels), *_op_runs(rows, np.flatnonzero(of_ops))]
    row, start_ns, end_ns, queued_ns = np.array(runs, dtype=np.int64).reshape(-1, 4).T
    order = np.lexsort((start_ns, _keys(rows, row)))
    row, start_ns = row[order], start_ns[order]
    # One collective of several tensors may be several kernels.
    alike = np.stack((rows.capture[row], rows.collective[row]))
    return CollectiveRuns(
        found=found,
        row=row,
        nth=turn_of_each(_keys(rows, row)),
        part=turns(alike, start_ns),
        start_ns=start_ns,
        end_ns=end_ns[order],
        queued_ns=queued_ns[order],
    )


def turn_of_each(keys: Int64s) -> Int64s:
    """Return the position of each among those with its key, which are adjacent."""
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else keys
    counts = np.diff(np.concatenate((first, [len(keys)])))
    return np.arange(len(keys), dtype=np.int64) - np.repeat(first, counts)


def turns(columns: Int64s | Int32s, start_ns: Int64s) -> Int64s:
    """Return for each row how many rows with the same values in these columns began before it."""
    group = np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((start_ns, group))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = turn_of_each(group[order])
    return found


def _kernel_runs(profile: Profile, kernels: Int64s) -> Iterator[_Run]:
    """Yield the executions of kernels, which are queued after their launch."""
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
    """Yield the executions of ops, each of which may have up to three rows."""
    lanes = rows.lane[ops]
    is_whole = having(rows.strings, lanes, lambda text: text == _ASYNC_LANE)
    is_carrier = having(rows.strings, lanes, lambda text: CARRIERS in text)
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
        # If others of the name have an end, one without was still running.
        if turn[0] not in finished:
            yield _run(rows, at, at, None)


def _by_turn(rows: Executions, at: Int64s) -> dict[_Turn, int]:
    """Return rows by name, capture, and how many of the name came before in the capture."""
    at = _sorted(rows, at)
    nth = turn_of_each(_keys(rows, at))
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


# Host ops that compute nothing themselves: they call functions or wait.
_NO_LOOP = (
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


# One of several devices into which a job divides the CPUs of its process.
_CPU_DEVICE = re.compile(r"/device:CPU:\d+\Z")


def overlap(rows: Executions, runs: CollectiveRuns) -> BusyTime:
    """Return how long collectives were running, and how much of that computation hid.

    Computation is other kernels of the accelerator, or for ops on a host, other ops of the process;
    if it has several devices of CPUs, of the same device.
    """
    accelerator = accelerators(rows)
    no_loop = np.array([text.startswith(_NO_LOOP) for text in rows.strings.values], dtype=np.bool_)
    is_kernel = rows.place == Place.ACCELERATOR
    is_work = ~runs.found & ~rows.background & ~no_loop[rows.op_type]
    is_work &= is_kernel | (rows.place == Place.HOST)
    width = len(rows.strings.values) + 2
    is_divided = having(rows.strings, rows.device, _CPU_DEVICE.match)
    of_host = np.where(is_divided, rows.device.astype(np.int64) + 2, 0)
    place = np.where(is_kernel, accelerator.astype(np.int64) + 2, of_host)
    key = rows.capture.astype(np.int64) * width + place
    loop = np.flatnonzero(is_work)
    loop = loop[np.argsort(key[loop], kind="stable")]
    order = np.argsort(key[runs.row], kind="stable")
    of_loop, of_runs = key[loop], key[runs.row][order]
    busy_ns = hidden_ns = 0
    for each in np.unique(of_runs).tolist():
        mine = loop[slice(*np.searchsorted(of_loop, [each, each + 1]))]
        ours = order[slice(*np.searchsorted(of_runs, [each, each + 1]))]
        under_way = union(runs.start_ns[ours], runs.end_ns[ours])
        busy_ns += under_way.length_ns
        hidden_ns += intersection(under_way, _union(rows, mine)).length_ns
    return BusyTime(busy_ns, hidden_ns)


def _union(rows: Executions, at: Int64s) -> Intervals:
    return union(rows.start_ns[at], rows.start_ns[at] + rows.duration_ns[at])
