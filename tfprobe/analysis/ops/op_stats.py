"""The cost of ops: time, runs, bytes and more, by op type, node of a graph or any other group.

All these numbers come from `sums` over executions. OpStats is one op type, for the op tables of the
report, of `tfprobe top` and of the input, and for rules. Costs has a row per node of a graph, for
views, pages and exports, which add rows up along scopes and lines of code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfprobe.analysis.ops.parameters import ARGUMENT, parameters
from tfprobe.errors import Missing, UnreadableInput
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, Int32s, Int64s

if TYPE_CHECKING:
    from tfprobe.analysis.ops.flops.count import FloatOps
    from tfprobe.profile.graph import TracedLoop


@dataclass(frozen=True, slots=True)
class OpStats:
    """One op type, summed over traced steps.

    `cpu_ns` is time inside the op on host threads, in `cpu_runs` executions; for an op of an
    accelerator it is the time of its scheduling; of an op of
    PyTorch, that of the op itself, without ops that it called. `accelerator_ns` is the time of its
    `accelerator_runs` kernels. Both may overlap in time, and so may ops on several threads: sums
    can exceed the duration of the steps. `bytes` is what the op requested of its allocators.
    """

    type: str
    cpu_runs: int
    accelerator_runs: int
    cpu_ns: int
    accelerator_ns: int
    bytes: int

    @property
    def runs(self) -> int:
        """Return the number of executions: on the host, or if there are none there, of kernels."""
        return self.cpu_runs or self.accelerator_runs

    @property
    def time_ns(self) -> int:
        """Return the time on host and accelerator together, which tfprof calls exec time."""
        return self.cpu_ns + self.accelerator_ns


@dataclass(frozen=True, slots=True)
class OpTable:
    """Op types by time, longest first, over `captures` traced steps.

    If not `has_bytes`, the recording has no sizes and all `bytes` are 0.
    """

    types: tuple[OpStats, ...]
    captures: int
    has_bytes: bool

    @property
    def time_ns(self) -> int:
        return sum(op.time_ns for op in self.types)


@dataclass(frozen=True, slots=True, eq=False)
class OpSums:
    """The numbers of OpStats in columns, one row per group.

    `moved_bytes` are those of copies and memsets, `output_bytes` what the outputs of ops hold.
    """

    cpu_runs: Int64s
    accelerator_runs: Int64s
    cpu_ns: Int64s
    accelerator_ns: Int64s
    requested_bytes: Int64s
    moved_bytes: Int64s
    output_bytes: Int64s

    @property
    def runs(self) -> Int64s:
        return np.where(self.cpu_runs > 0, self.cpu_runs, self.accelerator_runs)

    @property
    def time_ns(self) -> Int64s:
        return self.cpu_ns + self.accelerator_ns


def sums(rows: Executions, group: Int64s | Int32s, count: int) -> OpSums:
    """Sum executions by `group`, a number below `count` for each row; rows of `count` are left out.

    What was not on the host counts as on an accelerator, copies too.
    """
    # Host and accelerator in one pass: even numbers are of the host.
    key = 2 * group.astype(np.int64) + (rows.place != Place.HOST)

    def add(amount: Int64s | None = None) -> Int64s:
        if amount is not None and not amount.any():
            return np.zeros((count, 2), dtype=np.int64)
        # Exact: a sum of ns or bytes stays below 2**53, a hundred days or 9 PB.
        weights = None if amount is None else amount.astype(np.float64)
        total = np.bincount(key, weights, minlength=2 * count + 2)
        return total[: 2 * count].astype(np.int64).reshape(count, 2)

    own_ns = rows.duration_ns - rows.nested_ns if rows.nested_ns.any() else rows.duration_ns
    runs, time_ns, sizes = add(), add(own_ns), add(rows.bytes)
    return OpSums(
        cpu_runs=runs[:, 0],
        accelerator_runs=runs[:, 1],
        cpu_ns=time_ns[:, 0],
        accelerator_ns=time_ns[:, 1],
        requested_bytes=sizes[:, 0],
        moved_bytes=sizes[:, 1],
        output_bytes=add(rows.output_bytes)[:, 0],
    )


def by_type(rows: Executions) -> tuple[OpStats, ...]:
    """Return the op types of executions, longest first; copies are not ops."""
    types = np.flatnonzero(np.bincount(rows.op_type))
    number = np.zeros(int(types.max(initial=0)) + 1, dtype=np.int64)
    number[types] = np.arange(len(types))
    is_op = (rows.place == Place.HOST) | (rows.place == Place.ACCELERATOR)
    found = sums(rows, np.where(is_op, number[rows.op_type], len(types)), len(types))
    columns = (
        found.cpu_runs,
        found.accelerator_runs,
        found.cpu_ns,
        found.accelerator_ns,
        found.requested_bytes,
    )
    numbers = np.stack(columns, axis=1).tolist()
    return _longest_first(
        OpStats(rows.strings[op_type], *row)
        for op_type, row in zip(types.tolist(), numbers, strict=True)
        if row[0] or row[1]
    )


def op_sums(profile: Profile) -> OpTable:
    """Return the op types of all traced steps, none where there are none."""
    rows = profile.executions
    return OpTable(by_type(rows), len(profile.captures), bool(rows.bytes.any()))


def merge(tables: Sequence[OpTable]) -> OpTable | Missing:
    """Return one op table, such as that of a run from those of its processes."""
    captures = sum(table.captures for table in tables)
    if not captures:
        return Missing("no step was traced")
    by_name = defaultdict(list)
    for table in tables:
        for op in table.types:
            by_name[op.type].append(op)
    if not by_name:
        return Missing("the traced steps hold no execution of an op")
    types = _longest_first(_sum(ops) for ops in by_name.values())
    return OpTable(types, captures, any(table.has_bytes for table in tables))


def op_table(profile: Profile) -> OpTable | Missing:
    """Return the op table of a profile."""
    return merge((op_sums(profile),))


def _sum(ops: Sequence[OpStats]) -> OpStats:
    return OpStats(
        type=ops[0].type,
        cpu_runs=sum(op.cpu_runs for op in ops),
        accelerator_runs=sum(op.accelerator_runs for op in ops),
        cpu_ns=sum(op.cpu_ns for op in ops),
        accelerator_ns=sum(op.accelerator_ns for op in ops),
        bytes=sum(op.bytes for op in ops),
    )


def _longest_first(types: Iterable[OpStats]) -> tuple[OpStats, ...]:
    return tuple(sorted(types, key=lambda op: (-op.time_ns, op.type)))


# The columns of Costs. `definitions` counts nodes, and the scopes above them; `known_float_ops`
# counts nodes that ran and have known float operations, `known_accessed_bytes` those that ran and
# have known bytes that they read and wrote.
COLUMNS: tuple[str, ...] = (
    "bytes",
    "peak_bytes",
    "residual_bytes",
    "output_bytes",
    "time_ns",
    "accelerator_ns",
    "cpu_ns",
    "params",
    "float_ops",
    "runs",
    "definitions",
    "known_float_ops",
    "accessed_bytes",
    "known_accessed_bytes",
)
AT: Mapping[str, int] = {name: at for at, name in enumerate(COLUMNS)}
# The metrics of tfprof's options whose columns have another name.
_COLUMN_OF: Mapping[str, str] = {
    "micros": "time_ns",
    "accelerator_micros": "accelerator_ns",
    "cpu_micros": "cpu_ns",
    "occurrence": "runs",
}
NS_PER_US = 1000
AVERAGE = -1
_MOST = 2**63 - 1
_TABLE_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of the nodes of a graph, one row per node id; columns are COLUMNS."""

    rows: Int64s


def step_costs(traced: TracedLoop, step: int, float_ops: FloatOps | None = None) -> Costs:
    """Return the cost of each node in a traced step; for -1, the average over those it ran in.

    `runs` are executions on the host, or if there are none, of kernels. Peak and residual memory
    are not recorded and stay 0, and so do float operations unless they are given.
    """
    rows = traced.executions
    captures = [capture.index for capture in traced.captures if step in (AVERAGE, capture.step)]
    in_step = np.isin(rows.capture, captures)
    found = _sums(traced, in_step, float_ops)
    if step == AVERAGE:
        count = len(traced.graph.nodes)
        steps = _steps_of_each(traced.node[in_step], rows.capture[in_step], count)
        found //= np.maximum(steps, 1)[:, np.newaxis]
    return _defined(traced, found, float_ops)


def total_costs(traced: TracedLoop, float_ops: FloatOps | None = None) -> Costs:
    """Return the cost of each node in all traced steps together, as `step_costs`."""
    everywhere = np.ones(len(traced.executions), dtype=np.bool_)
    return _defined(traced, _sums(traced, everywhere, float_ops), float_ops)


def _sums(traced: TracedLoop, chosen: Flags, float_ops: FloatOps | None) -> Int64s:
    """Sum the chosen rows by node, in the columns that come from executions."""
    count = len(traced.graph.nodes)
    by_node = sums(traced.executions, np.where(chosen, traced.node, count), count)
    found = np.zeros((count, len(COLUMNS)), dtype=np.int64)
    found[:, AT["cpu_ns"]] = by_node.cpu_ns
    found[:, AT["accelerator_ns"]] = by_node.accelerator_ns
    found[:, AT["bytes"]] = by_node.requested_bytes + by_node.moved_bytes
    found[:, AT["output_bytes"]] = by_node.output_bytes
    found[:, AT["runs"]] = by_node.runs
    if float_ops is not None:
        # In whole numbers: a sum of these may go beyond 2**53.
        np.add.at(found[:, AT["float_ops"]], traced.node[chosen], float_ops.of_rows[chosen])
        accessed = found[:, AT["accessed_bytes"]]
        np.add.at(accessed, traced.node[chosen], float_ops.accessed_of_rows[chosen])
    return found


def _defined(traced: TracedLoop, found: Int64s, float_ops: FloatOps | None) -> Costs:
    """Fill the columns that derive from others and those that come from the graph."""
    count = len(found)
    found[:, AT["time_ns"]] = found[:, AT["cpu_ns"]] + found[:, AT["accelerator_ns"]]
    found[:, AT["params"]] = [
        summable(parameter, count) for parameter in parameters(traced.graph.nodes)
    ]
    found[:, AT["definitions"]] = 1
    if float_ops is not None:
        found[:, AT["known_float_ops"]] = found[:, AT["runs"]] > 0
        found[list(float_ops.unknown), AT["known_float_ops"]] = 0
        accessing = list(float_ops.accessing)
        found[accessing, AT["known_accessed_bytes"]] = found[accessing, AT["runs"]] > 0
    return Costs(found)


def known_columns(traced: TracedLoop, float_ops: FloatOps | None) -> tuple[str, ...]:
    """Return the columns of `step_costs` that the recording has; the others are 0."""
    unknown = {"peak_bytes", "residual_bytes"}
    if not traced.has_memory:
        unknown |= {"bytes", "output_bytes"}
    if not has_parameters(traced):
        unknown |= {"params"}
    if float_ops is None or not float_ops.of_rows.any():
        unknown |= {"float_ops"}
    if float_ops is None or not float_ops.accessing:
        unknown |= {"accessed_bytes"}
    return tuple(name for name in COLUMNS if name not in unknown)


def has_float_ops(row: Int64s) -> bool:
    """Return whether a row has known float operations, or nothing in it ran."""
    return bool(row[AT["known_float_ops"]] > 0 or row[AT["runs"]] == 0)


def has_parameters(traced: TracedLoop) -> bool:
    """Return whether the parameters of nodes are known: from a graph or a compiled program."""
    return traced.has_graph or any(node.op == ARGUMENT for node in traced.graph.nodes)


def has_accessed_bytes(row: Int64s) -> bool:
    """Return whether anything in a row has known bytes that it read and wrote."""
    return bool(row[AT["known_accessed_bytes"]] > 0)


def _steps_of_each(node: Int32s, capture: Int32s, count: int) -> Int64s:
    """Return in how many captures each of `count` nodes ran."""
    steps = np.zeros(count, dtype=np.int64)
    # A table of nodes and captures, some captures at once: faster than sorting ten million pairs.
    captures = int(capture.max(initial=-1)) + 1
    width = max(1, min(captures, _TABLE_BYTES // max(count, 1)))
    for first in range(0, captures, width):
        chosen = (capture >= first) & (capture < first + width)
        is_in = np.zeros((count, width), dtype=np.bool_)
        is_in[node[chosen], capture[chosen] - first] = True
        steps += is_in.sum(axis=1)
    return steps


def column(metric: str) -> int:
    """Return the column of a metric of tfprof's options."""
    return AT[_COLUMN_OF.get(metric, metric)]


def value(row: Int64s, metric: str) -> int:
    """Return a metric of tfprof's options from a row of costs, in the unit of its name."""
    at = column(metric)
    return int(row[at]) // (NS_PER_US if COLUMNS[at].endswith("_ns") else 1)


def nothing() -> Int64s:
    """Return a row of costs that are all 0."""
    return np.zeros(len(COLUMNS), dtype=np.int64)


def summable(amount: int, count: int) -> int:
    """Return `amount` if `count` such amounts can be added up in 64 bits."""
    if abs(amount) * count > _MOST:
        raise UnreadableInput(
            f"A node has {amount:,} of something that no machine has: the profile is damaged."
        )
    return amount
