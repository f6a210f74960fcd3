"""Measure how much of the time in which collectives are under way computation goes on as well."""

from __future__ import annotations

import numpy as np

from tfprobe.model.executions import Executions, Place
from tfprobe.model.tables import Int64s
from tfprobe.views.collective_runs import CollectiveRuns
from tfprobe.views.copies import accelerators
from tfprobe.views.intervals import Intervals, intersection, union
from tfprobe.views.transfers import Busy

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


def overlap(rows: Executions, runs: CollectiveRuns) -> Busy:
    """Return how long collectives were under way, and how much of that computation hid.

    Computation is other kernels of the accelerator; of ops on a host, other ops of the process.
    """
    accelerator = accelerators(rows)
    no_work = np.array([text.startswith(_NO_WORK) for text in rows.strings.values], dtype=np.bool_)
    is_kernel = rows.place == Place.ACCELERATOR
    is_work = ~runs.found & ~rows.background & ~no_work[rows.op_type]
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
