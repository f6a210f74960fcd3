"""Recognise collectives among executions, by op, by kernel, or by the op that launched the kernel.

A collective is an operation in which all ranks of a group take part: all-reduce, broadcast, gather.
"""

from __future__ import annotations

import re

import numpy as np

from tfprobe.analysis.core.copies import matching
from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.tables import Flags, Int32s, Int64s, having

# Ops of TensorFlow, Horovod and HLO that move data. Ops that only set up a group or query a rank
# move none; nor does the HLO op that returns a permutation's id.
_OPS = re.compile(
    r"Collective(?:Reduce|Gather|Bcast|Permute|AllToAll)"
    r"|_?Nccl(?:AllReduce|Broadcast|Reduce|AllGather|Send|Recv)"
    r"|Horovod(?:Grouped)?(?:All|Broadcast|Reducescatter)"
    r"|CrossReplicaSum|Xla(?:AllReduce|AllGather|AllToAll|ReduceScatter|CollectivePermute)"
    r"|AllToAll\Z"
    r"|(?:hlo.*)?(?:all-reduce|all-gather|reduce-scatter|all-to-all)"
    r"|collective-(?:permute|broadcast)"
    # PyTorch's, by the library that runs them.
    r"|(?:gloo|nccl|mpi|ucc):(?!.*(?:send|recv|barrier))|record_param_comms\Z"
)
# NCCL's kernels and RCCL's, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_AllReduce...",
# TensorFlow's own and those of others.
_KERNELS = re.compile(r"(?:void )?(?:nccl|rccl)|.*(?:all_?reduce_?kernel|nvshmem)", re.IGNORECASE)
# Collectives in which no rank finishes before all have started, because every result needs the data
# of every rank. The root of a broadcast may finish before the last receiver has started.
_OF_ALL = re.compile(
    r"all_?-?(?:reduce|gather|to_?-?all)|reduce_?-?scatter|Collective(?:Reduce|Gather)"
    r"|CrossReplicaSum",
    re.IGNORECASE,
)
# The name of the threads that run TensorFlow's own collectives.
CARRIERS = "collective_ops"
# How many ops that ended inside an outer op are skipped on the way to it.
_DEEPEST = 64


def names_collective(text: str) -> bool:
    """Return whether this is the name of a collective op or of its kernel."""
    return bool(_OPS.match(text) or _KERNELS.match(text))


def binds_all(text: str) -> bool:
    """Return whether no rank finishes an op or kernel of this name before all have started it."""
    return bool(_OF_ALL.search(text))


def is_collective(rows: Executions, spans: Spans) -> Flags:
    """Return for each row whether it is a collective, or a kernel of one."""
    on_device = np.flatnonzero(rows.place != Place.HOST)
    collective = having(rows.strings, rows.op_type, _OPS.match)
    for column in (rows.op_type, rows.detail, rows.name):
        collective[on_device] |= having(rows.strings, column[on_device], _KERNELS.match)
    of_host = collective & (rows.place == Place.HOST)
    return collective | _launched_by(rows, spans, of_host)


def launches(rows: Executions, spans: Spans) -> Int64s:
    """Return for each row the span of the driver call that launched it, -1 where none is known."""
    calls = np.flatnonzero(np.isin(spans.kind, (SpanKind.LAUNCH, SpanKind.COPY_CALL)))
    span = np.full(len(rows), -1, dtype=np.int64)
    correlated = np.flatnonzero((rows.place != Place.HOST) & (rows.correlation > 0))
    if len(calls) and len(correlated):
        at = matching(
            rows.capture[correlated],
            rows.correlation[correlated],
            spans.capture[calls],
            spans.correlation[calls],
        )
        span[correlated] = np.where(at >= 0, calls[at], -1)
    return span


def _launched_by(rows: Executions, spans: Spans, ops: Flags) -> Flags:
    """Return which kernels were launched inside one of these ops, on the op's thread."""
    launched = np.zeros(len(rows), dtype=np.bool_)
    if not ops.any() or not len(spans):
        return launched
    span = launches(rows, spans)
    kernels = np.flatnonzero((span >= 0) & (rows.place == Place.ACCELERATOR))
    if not len(kernels):
        return launched
    inside = enclosing(rows, spans, span[kernels], np.flatnonzero(ops)) >= 0
    launched[kernels[inside]] = True
    return launched


def enclosing(rows: Executions, spans: Spans, positions: Int64s, ops: Int64s) -> Int64s:
    """Return for each span the last of `ops` that began before it on its thread and still ran.

    -1 where there is none. `positions` are those of the spans, `ops` those of host rows. Spans and
    rows have separate strings, so threads are compared by name.
    """
    threads: dict[str, int] = {}
    lane_of_row = _lanes(rows.lane[ops], rows.strings.values, threads)
    lane_of_span = _lanes(spans.lane[positions], spans.strings.values, threads)
    around = np.full(len(positions), -1, dtype=np.int64)
    width = len(threads) or 1
    key_of_row = rows.capture[ops].astype(np.int64) * width + lane_of_row
    key_of_span = spans.capture[positions].astype(np.int64) * width + lane_of_span
    by_key = np.lexsort((rows.start_ns[ops], key_of_row))
    ops, key_of_row = ops[by_key], key_of_row[by_key]
    order = np.argsort(key_of_span, kind="stable")
    key_of_span = key_of_span[order]
    for key in np.intersect1d(key_of_row, key_of_span).tolist():
        candidates = ops[slice(*np.searchsorted(key_of_row, [key, key + 1]))]
        of_key = order[slice(*np.searchsorted(key_of_span, [key, key + 1]))]
        around[of_key] = _innermost(rows, candidates, spans.start_ns[positions[of_key]])
    return around


def _innermost(rows: Executions, ops: Int64s, moment_ns: Int64s) -> Int64s:
    """Return the innermost of these ops, sorted by start, around each moment."""
    start_ns = rows.start_ns[ops]
    end_ns = start_ns + rows.duration_ns[ops]
    at = np.searchsorted(start_ns, moment_ns, side="right") - 1
    # Ops nest a few levels deep on a thread: skip those that ended, towards the one around them.
    for _ in range(_DEEPEST):
        ended = (at >= 0) & (end_ns[np.maximum(at, 0)] < moment_ns)
        if not ended.any():
            break
        at = np.where(ended, at - 1, at)
    ended = (at < 0) | (end_ns[np.maximum(at, 0)] < moment_ns)
    innermost: Int64s = np.where(ended, -1, ops[np.maximum(at, 0)])
    return innermost


def _lanes(column: Int32s, texts: tuple[str, ...], threads: dict[str, int]) -> Int64s:
    positions, inverse = np.unique(column, return_inverse=True)
    numbers = [threads.setdefault(texts[index], len(threads)) for index in positions.tolist()]
    return np.array(numbers, dtype=np.int64)[inverse.reshape(-1)]
