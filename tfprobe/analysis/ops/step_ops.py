"""Sum up the ops of traced steps: by type, how many, how small, and what runs alongside."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.core.intervals import busy_ns_by_group, innermost
from tfprobe.analysis.core.names import PHASES, is_pytorch, phases
from tfprobe.analysis.ops.op_stats import OpStats, by_type
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.profile import Capture
from tfprobe.profile.tables import Flags, Int8s, Int64s, having, used

_TOP = 10
# The calls through which a function was reached: they are of no use to a reader.
_CALL_PATH = re.compile(r"^((Stateful)?PartitionedCall(_\d+)?/)+")
# How ops begin that spend their time waiting for others.
WAITS = (
    "_Recv",
    "_HostRecv",
    "_Send",
    "_HostSend",
    "RecvTensor",
    "Barrier",
    "Collective",
    "FIFOQueueDequeue",
    "InfeedDequeue",
    "IteratorGetNext",
    "MapUnstage",
    "MultiDeviceIteratorGetNext",
    "NcclAllReduce",
    "OutfeedDequeue",
    "QueueDequeue",
    "QueueEnqueue",
    "RandomShuffleQueueDequeue",
    "ReaderRead",
    "Stage",
    "Unstage",
)
# An executor needs some us between two ops. During a longer pause its threads have no CPU, or wait
# for something.
_PAUSE_NS = 200_000
# An op that takes this many times as long as a tiny one mostly computes.
_LONG = 10
_UPDATES = (
    "Apply",
    "Assign",
    "ResourceApply",
    "ResourceScatter",
    "ResourceSparseApply",
    "Scatter",
    "SparseApply",
)
# The op type of copies that timelines of older TensorFlows show on a lane of the host.
_COPY = "MEMCPY"
# Ops that run a function, whose ops are rows of their own.
CALLS = (
    "PartitionedCall",
    "StatefulPartitionedCall",
    "If",
    "StatelessIf",
    "While",
    "StatelessWhile",
    "Case",
    "StatelessCase",
    "RemoteCall",
)
# Python may sleep, and files may be on slow storage.
_MAY_WAIT = ("EagerPyFunc", "NumpyFunction", "PyFunc", "ReadFile", "WholeFileReader")
# Element-wise ops: XLA makes one kernel of a chain of them.
_FUSIBLE = (
    "Abs Add AddN AddV2 BiasAdd BiasAddV1 BiasAddGrad Cast Div DivNoNan Elu EluGrad Equal Erf Exp "
    "Expm1 Fill Floor FloorDiv FloorMod Gelu Greater GreaterEqual Less LessEqual LeakyRelu "
    "LeakyReluGrad Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mul MulNoNan Neg "
    "NotEqual OnesLike Pow RealDiv Reciprocal Relu Relu6 Relu6Grad ReluGrad Round Rsqrt RsqrtGrad "
    "Select SelectV2 Sigmoid SigmoidGrad Sign Softplus SoftplusGrad Softsign Sqrt SqrtGrad Square "
    "SquaredDifference Sub Tanh TanhGrad TruncateDiv Xdivy Xlogy ZerosLike"
)
FUSIBLE = frozenset(_FUSIBLE.split())
# An op of PyTorch that is called so often in a step, at one place with equal shapes, is a loop of
# the program over rows, steps of time or parts of a model; layers of a model are places of their
# own.
_LEAST_TURNS = 20
# Python and PyTorch take at most as long from the end of an op to the next one of such a loop.
_MOST_TURN_NS = 100_000
# What updates many parameters at once.
_OF_MANY = re.compile(r"_(?:fused|foreach)_")


@dataclass(frozen=True, slots=True)
class BusyOp:
    """An op type of the mean traced step; `stats` are its sums over all traced steps.

    `busy_ns` is the time in a step during which at least one such op ran, `node` the op that ran
    longest.
    """

    stats: OpStats
    busy_ns: float
    node: str

    @property
    def type(self) -> str:
        return self.stats.type


@dataclass(frozen=True, slots=True)
class RepeatedOps:
    """Ops of PyTorch that a loop of the program calls, per step, without update and loader.

    `turn_ns` is their time up to the next op of their thread, without what larger ones compute.
    `node` is the one with most of it.
    """

    per_step: float
    turn_ns: float
    node: str


@dataclass(frozen=True, slots=True)
class StepOps:
    """The ops of a mean traced step, on threads that work for it.

    `span_ns` is from the start of its first op to the end of its last. Within it, some op ran for
    `busy_ns`, one that is not tiny for `large_ns`, and none for `paused_ns`, counting only pauses
    longer than an executor needs for the next op. `undisturbed_ns` is what they take at least, at
    most `busy_ns`: of each op, by its type and place among those of its type, the shortest time in
    any traced step, without the time of a tiny op; of ops that are long in each, all of their time.
    `usual_op_ns` is the median op. `has_updates`:
    some ops change variables, as training does. `concurrent` are types of ops that compute for
    later steps on the host, as an input pipeline does: `concurrent_ns` is the sum of their times,
    `concurrent_busy_ns` the time in which any of them ran. All types are by busy time, longest
    first. `exposed_host` are ops of the host by the time in which no device was busy. For PyTorch
    only: `repeated`, `updates`, the number of ops that update single parameters, and
    `computing_ns`, the time of ops that are not tiny, call no other, and update nothing.
    """

    step_ns: float
    span_ns: float
    busy_ns: float
    large_ns: float
    per_step: float
    undisturbed_ns: float
    usual_op_ns: float
    host: tuple[BusyOp, ...]
    device: tuple[BusyOp, ...]
    fusible_ns: float
    exposed_host: tuple[BusyOp, ...] = ()
    paused_ns: float = 0.0
    has_updates: bool = True
    concurrent: tuple[BusyOp, ...] = ()
    concurrent_ns: float = 0.0
    concurrent_busy_ns: float = 0.0
    repeated: RepeatedOps | None = None
    updates: float = 0.0
    computing_ns: float = 0.0

    @property
    def has_accelerator(self) -> bool:
        return bool(self.device)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the traced steps of one loop; `capture` counts its captures from 0."""

    rows: Executions
    capture: Int64s
    captures: int

    @property
    def end_ns(self) -> Int64s:
        end: Int64s = self.rows.start_ns + self.rows.duration_ns
        return end


def step_ops(
    rows: Executions, captures: tuple[Capture, ...], *, tiny_ns: float
) -> StepOps | Missing:
    """Return the ops of the mean traced step; `rows` are those of these captures, numbered from 0.

    Rows of threads that prepare later steps are separate. Ops shorter than `tiny_ns` are tiny.
    """
    mine = _Rows(rows, rows.capture.astype(np.int64), len(captures))
    concurrent = _only(mine, _is_concurrent(rows))
    concurrent_busy_ns = busy_ns_by_group(
        concurrent.capture, concurrent.captures, concurrent.rows.start_ns, concurrent.end_ns
    )
    # The input may run before the trace of its step begins, and is then missing from it.
    seen = int(np.count_nonzero(concurrent_busy_ns))
    concurrent_steps = seen if 2 * seen >= len(captures) else len(captures)
    kept = _only(mine, ~mine.rows.background)
    on_host = kept.rows.place == Place.HOST
    loops = on_host & ~waits_or_calls(kept.rows) & ~_starting(kept.rows, (_COPY,))
    if not loops.any():
        return Missing("the traced steps hold no execution of an op")
    host, device = _only(kept, loops), _only(kept, kept.rows.place == Place.ACCELERATOR)
    span_ns, busy, large_ns, paused_ns = _span(host, tiny_ns)
    # Ops of PyTorch call each other, and each call is a row.
    of_pytorch = is_pytorch(host.rows)
    own = _innermost(host) if of_pytorch else host
    in_phase = phases(host.rows) if of_pytorch else None
    return StepOps(
        step_ns=sum(capture.duration_ns for capture in captures) / len(captures),
        span_ns=span_ns,
        busy_ns=busy,
        large_ns=large_ns,
        per_step=len(host.rows) / len(captures),
        undisturbed_ns=min(_undisturbed_ns(host, tiny_ns), busy),
        usual_op_ns=float(np.median(host.rows.duration_ns)),
        host=_types(own, host),
        device=_types(device, device),
        fusible_ns=_fusible_ns(device if len(device.rows) else own),
        exposed_host=_exposed(own, host, _only(kept, kept.rows.place != Place.HOST)),
        paused_ns=paused_ns,
        has_updates=bool(_starting(rows, _UPDATES).any()) or is_pytorch(rows),
        concurrent=_types(concurrent, concurrent),
        concurrent_ns=int(concurrent.rows.duration_ns.sum()) / max(concurrent_steps, 1),
        concurrent_busy_ns=int(concurrent_busy_ns.sum()) / max(concurrent_steps, 1),
        repeated=None if in_phase is None else _repeated(host, in_phase, tiny_ns),
        updates=0.0 if in_phase is None else _updates(host, in_phase),
        computing_ns=0.0 if in_phase is None else _computing_ns(host, in_phase, tiny_ns),
    )


_IN_UPDATE, _IN_LOADER = PHASES.index("optimizer"), len(PHASES) - 1


def _repeated(host: _Rows, in_phase: Int8s, tiny_ns: float) -> RepeatedOps | None:
    """Return the ops that a loop of the program calls, None where there is no such loop."""
    counted = (in_phase != _IN_UPDATE) & (in_phase != _IN_LOADER)
    node = host.capture * len(host.rows.strings.values) + host.rows.name
    nodes, inverse, count = np.unique(node[counted], return_inverse=True, return_counts=True)
    chosen = np.flatnonzero(counted)[count[inverse] >= _LEAST_TURNS]
    if not len(chosen):
        return None
    turns_ns = _turns_ns(host, tiny_ns)[chosen]
    by_node = np.bincount(np.searchsorted(nodes, node[chosen]), weights=turns_ns)
    name = int(nodes[int(np.argmax(by_node))]) % len(host.rows.strings.values)
    return RepeatedOps(
        per_step=len(chosen) / host.captures,
        turn_ns=float(turns_ns.sum()) / host.captures,
        node=host.rows.strings[name],
    )


def _turns_ns(host: _Rows, tiny_ns: float) -> Int64s:
    """Return the time from the start of each op to that of the next one of its thread.

    What an op computes that is not tiny, and calls no other, is left out; so is a pause.
    """
    until_next_ns, took_ns = _until_next_ns(host), host.rows.duration_ns
    computes = (until_next_ns >= took_ns) & (took_ns >= tiny_ns)
    kept_ns = until_next_ns - np.where(computes, took_ns, 0)
    found: Int64s = np.clip(kept_ns, 0, _MOST_TURN_NS)
    return found


def _until_next_ns(host: _Rows) -> Int64s:
    """Return the time from the start of each op to that of the next one of its thread."""
    rows = host.rows
    lane = host.capture * len(rows.strings.values) + rows.lane
    order = np.lexsort((-host.end_ns, rows.start_ns, lane))
    starts_ns, lanes = rows.start_ns[order], lane[order]
    follows = np.append(lanes[1:] == lanes[:-1], False)
    next_ns = np.append(starts_ns[1:], 0)
    found = np.zeros(len(order), dtype=np.int64)
    found[order] = np.where(follows, next_ns - starts_ns, rows.duration_ns[order])
    return found


def _computing_ns(host: _Rows, in_phase: Int8s, tiny_ns: float) -> float:
    took_ns = host.rows.duration_ns
    is_leaf = _until_next_ns(host) >= took_ns
    chosen = is_leaf & (took_ns >= tiny_ns) & (in_phase != _IN_UPDATE)
    return int(took_ns[chosen].sum()) / host.captures


def _updates(host: _Rows, in_phase: Int8s) -> float:
    """Return how many ops of a step update single parameters; 0 if some update many at once."""
    of_many = having(host.rows.strings, host.rows.op_type, lambda op: bool(_OF_MANY.search(op)))
    updating = in_phase == _IN_UPDATE
    return 0.0 if (of_many & updating).any() else int(updating.sum()) / host.captures


def _is_concurrent(rows: Executions) -> Flags:
    """Say which rows are ops of the host that compute for later steps, and never wait."""
    may_wait = waits_or_calls(rows) | _starting(rows, _MAY_WAIT)
    computes: Flags = rows.background & (rows.place == Place.HOST) & ~may_wait
    return computes


def waits_or_calls(rows: Executions) -> Flags:
    """Say which rows are ops that only wait or run a function."""
    return _starting(rows, WAITS) | _of_types(rows, CALLS)


def _starting(rows: Executions, prefixes: tuple[str, ...]) -> Flags:
    return having(rows.strings, rows.op_type, lambda text: text.startswith(prefixes))


def _innermost(host: _Rows) -> _Rows:
    """Return rows for the intervals in which each op was the innermost one of its thread."""
    rows, ends_ns = host.rows, host.end_ns
    lanes = host.capture * len(rows.strings.values) + rows.lane
    order = np.lexsort((-ends_ns, rows.start_ns, lanes))
    at, start_ns, end_ns = innermost(lanes[order], rows.start_ns[order], ends_ns[order])
    chosen = order[at]
    own = replace(rows.at(chosen), start_ns=start_ns, duration_ns=end_ns - start_ns)
    return _Rows(own, host.capture[chosen], host.captures)


def _only(mine: _Rows, chosen: Flags) -> _Rows:
    return _Rows(mine.rows.only(chosen), mine.capture[chosen], mine.captures)


def _of_types(rows: Executions, types: tuple[str, ...] | frozenset[str]) -> Flags:
    return having(rows.strings, rows.op_type, types.__contains__)


def _span(host: _Rows, tiny_ns: float) -> tuple[float, float, float, float]:
    """Return the span of ops, and how much of it ops, large ops and pauses take."""
    start, end = host.rows.start_ns, host.end_ns
    first = np.full(host.captures, np.iinfo(np.int64).max)
    last = np.zeros(host.captures, dtype=np.int64)
    np.minimum.at(first, host.capture, start)
    np.maximum.at(last, host.capture, end)
    large = host.rows.duration_ns >= tiny_ns
    covered = busy_ns_by_group(host.capture[large], host.captures, start[large], end[large])
    busy = busy_ns_by_group(host.capture, host.captures, start, end)
    paused = _paused_ns(host)
    sums = (each.sum() for each in (np.maximum(last - first, 0), busy, covered, paused))
    span, any_op, large_op, no_op = (float(each) / host.captures for each in sums)
    return span, any_op, large_op, no_op


def _paused_ns(host: _Rows) -> Int64s:
    """Return the times between ops that are too long for an executor that has ops ready to run."""
    order = np.lexsort((host.rows.start_ns, host.capture))
    capture, start, end = host.capture[order], host.rows.start_ns[order], host.end_ns[order]
    # All captures on one axis, one after another, so that each counts by itself.
    base = capture * (int(end.max() - start.min()) + 1) - start.min()
    reached = np.maximum.accumulate(end + base) - base
    between = np.maximum(start[1:] - reached[:-1], 0)
    paused: Int64s = between[(capture[1:] == capture[:-1]) & (between > _PAUSE_NS)]
    return paused


def _undisturbed_ns(host: _Rows, tiny_ns: float) -> float:
    """Return the time of a mean step's ops beyond that of tiny ones, each by its shortest time.

    An op that lost its CPU for a while takes a thousand times as long in one step, and not in the
    others: under load, a hundredth of the ops took nine tenths of the time of all. An op that
    computes for long loses it however it is run, and counts as it is.
    """
    rows = host.rows
    order = np.lexsort((rows.start_ns, rows.op_type, host.capture))
    group = host.capture[order] * len(rows.strings.values) + rows.op_type[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    ordinal = np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))
    width = int(ordinal.max()) + 1
    key = rows.op_type[order].astype(np.int64) * width + ordinal
    same, inverse = np.unique(key, return_inverse=True)
    shortest = np.full(len(same), np.iinfo(np.int64).max)
    np.minimum.at(shortest, inverse, rows.duration_ns[order])
    needed = np.maximum(shortest[inverse] - tiny_ns, 0)
    is_long = shortest[inverse] >= _LONG * tiny_ns
    return float(np.where(is_long, rows.duration_ns[order], needed).sum()) / host.captures


def _types(mine: _Rows, every: _Rows) -> tuple[BusyOp, ...]:
    """Return the op types with most busy time in `mine`; their stats are those of `every`."""
    rows = mine.rows
    stats = {op.type: op for op in by_type(every.rows)}
    # In the order in which they ran: string numbers depend on what was read before.
    first = np.full(len(rows.strings.values), len(every.rows))
    first[every.rows.op_type[::-1]] = np.arange(len(every.rows))[::-1]
    types = np.array(sorted(used(rows.op_type), key=first.__getitem__), dtype=np.int64)
    number = np.zeros(len(rows.strings.values), dtype=np.int64)
    number[types] = np.arange(len(types))
    group = mine.capture * len(types) + number[rows.op_type]
    by_group = busy_ns_by_group(group, mine.captures * len(types), rows.start_ns, mine.end_ns)
    busy = by_group.reshape(mine.captures, len(types)).sum(axis=0)
    longest = np.argsort(-busy, kind="stable")[:_TOP].tolist()
    return tuple(
        BusyOp(
            stats=stats[rows.strings[types[at]]],
            busy_ns=int(busy[at]) / mine.captures,
            node=_longest_node(rows, int(types[at])),
        )
        for at in longest
        if busy[at]
    )


def _longest_node(rows: Executions, op_type: int) -> str:
    of_type = np.flatnonzero(rows.op_type == op_type)
    longest = of_type[int(np.argmax(rows.duration_ns[of_type]))]
    return _CALL_PATH.sub("", rows.strings[int(rows.name[longest])])


def _fusible_ns(mine: _Rows) -> float:
    chosen = _of_types(mine.rows, FUSIBLE)
    rows, end_ns = mine.rows, mine.end_ns
    busy = busy_ns_by_group(
        mine.capture[chosen], mine.captures, rows.start_ns[chosen], end_ns[chosen]
    )
    return float(busy.sum()) / mine.captures


def _exposed(host: _Rows, every: _Rows, busy: _Rows) -> tuple[BusyOp, ...]:
    """Return the ops that computed on the host only, by the time in which no device was `busy`.

    Devices run kernels and copies: a copy to a device lasts as long as the op that asks for it. Ops
    of PyTorch that only allocate or describe a tensor have no kernel on any device, nor has what
    torch.compile runs around its kernels.
    """
    if not (busy.rows.place == Place.ACCELERATOR).any():
        return ()
    launched = np.zeros(len(host.rows.strings.values), dtype=np.bool_)
    launched[busy.rows.name] = True
    if is_pytorch(every.rows):
        host, every = (_only(rows, _computing(rows.rows)) for rows in (host, every))
    own = _only(host, ~launched[host.rows.name])
    every = _only(every, ~launched[every.rows.name])
    found = [_alone(op, own, busy) for op in _types(own, every)]
    return tuple(sorted(found, key=lambda op: -op.busy_ns))


# Ops of PyTorch that compute nothing: they allocate, make another view of a tensor, read one value
# of it, or call the op that does the work.
_COMPUTES_NOT = re.compile(
    r"aten::(empty\w*|new_empty\w*|resize_|as_strided\w*|view\w*|_unsafe_view|_reshape_alias|reshape"
    r"|alias|detach_?|slice|select|narrow|expand|permute|transpose|t|unsqueeze|squeeze|flatten"
    r"|lift_fresh|to|_to_copy|item|_local_scalar_dense|is_nonzero|set_|result_type)\Z"
)


def _computing(rows: Executions) -> Flags:
    """Say which rows of PyTorch are ops that compute something wherever they run."""
    return having(rows.strings, rows.op_type, lambda op: "::" in op and not _COMPUTES_NOT.match(op))


def _alone(op: BusyOp, own: _Rows, device: _Rows) -> BusyOp:
    """Return an op with the time in which it ran and no device did anything."""
    of_type = _of_types(own.rows, frozenset({op.type}))
    both = np.concatenate([own.capture[of_type], device.capture])
    start_ns = np.concatenate([own.rows.start_ns[of_type], device.rows.start_ns])
    end_ns = np.concatenate([own.end_ns[of_type], device.end_ns])
    together = busy_ns_by_group(both, own.captures, start_ns, end_ns)
    kernels = busy_ns_by_group(device.capture, own.captures, device.rows.start_ns, device.end_ns)
    return replace(op, busy_ns=float((together - kernels).sum()) / own.captures)
