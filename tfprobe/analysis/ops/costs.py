"""What each node of a graph costs in a step, in columns; and what several cost together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.ops.parameters import held, parameters
from tfprobe.errors import UnreadableInput
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.records import GraphProfile, Record, Span
from tfprobe.profile.tables import Int32s

if TYPE_CHECKING:
    # What a recorded run is made of, which the files of tfprof are not.
    from tfprobe.profile.graph import TracedLoop
from tfprobe.analysis.ops.flops.count import FloatOps

Int64s = npt.NDArray[np.int64]

# The columns of a row of costs. `definitions` counts nodes, and the scopes above them;
# `known_float_ops` nodes that ran and of which float operations are known.
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
)
AT: Mapping[str, int] = {name: at for at, name in enumerate(COLUMNS)}
# The metrics of tfprof's options that are no columns of ours by the same name.
_COLUMN_OF: Mapping[str, str] = {
    "micros": "time_ns",
    "accelerator_micros": "accelerator_ns",
    "cpu_micros": "cpu_ns",
    "occurrence": "runs",
}
NS_PER_US = 1000
_AVERAGE = -1
_MOST = 2**63 - 1
_TABLE_BYTES = 2**26

_OF_RECORD: Mapping[str, Callable[[Record], int]] = {
    # Times in µs here: averages are cut to those.
    "bytes": lambda record: sum(each.requested_bytes for each in record.memory),
    "peak_bytes": lambda record: sum(each.peak_bytes for each in record.memory),
    "residual_bytes": lambda record: sum(each.residual_bytes for each in record.memory),
    "output_bytes": lambda record: sum(each.output_bytes for each in record.memory),
    "accelerator_ns": lambda record: _sum_us(record.accelerator.values()),
    "cpu_ns": lambda record: _sum_us(record.cpu.values()),
    "time_ns": lambda record: _sum_us(record.accelerator.values()) + _sum_us(record.cpu.values()),
    "runs": lambda record: record.run_count,
}


@dataclass(frozen=True, slots=True)
class Costs:
    """One row for each node of a graph, by node id; columns are COLUMNS."""

    rows: Int64s


def costs(profile: GraphProfile, step: int) -> Costs:
    """Return what each node cost in `step`; of -1, on average over the steps in which it ran.

    Averages are cut to whole numbers, those of times to whole µs, each by itself, as tfprof's are.
    Raises UnreadableInput where they are too large to be added up.
    """
    count = len(profile.graph.nodes)
    rows = np.zeros((count, len(COLUMNS)), dtype=np.int64)
    rows[:, AT["params"]] = [_bounded(held(node.shape), count) for node in profile.graph.nodes]
    rows[:, AT["float_ops"]] = [_bounded(node.float_ops, count) for node in profile.graph.nodes]
    rows[:, AT["definitions"]] = 1
    # Most nodes of a large graph never run: they are variables' initializers, savers and the like.
    ran = [at for at, records in enumerate(profile.records) if records]
    for at in ran:
        records = profile.records[at]
        runs = _in_step(records, step, _OF_RECORD["runs"])
        for name, of_record in _OF_RECORD.items():
            unit = NS_PER_US if name.endswith("_ns") else 1
            rows[at, AT[name]] = _bounded(_in_step(records, step, of_record) * unit, count)
        rows[at, AT["float_ops"]] = _bounded(profile.graph.nodes[at].float_ops * runs, count)
    return Costs(rows)


def sampled_costs(sampled: TracedLoop, step: int, float_ops: FloatOps | None = None) -> Costs:
    """Return what each node cost in a traced step; of -1, on average over those in which it ran.

    `runs` are rows of the host, or of kernels where there are none; peak and residual memory are
    not in these rows and stay 0, and so do float operations unless they are given.
    """
    rows = sampled.executions
    captures = [capture.index for capture in sampled.captures if step in (_AVERAGE, capture.step)]
    in_step = np.isin(rows.capture, captures)
    found = _sums(sampled, in_step, float_ops)
    if step == _AVERAGE:
        count = len(sampled.graph.nodes)
        steps = _steps_of_each(sampled.node[in_step], rows.capture[in_step], count)
        found //= np.maximum(steps, 1)[:, np.newaxis]
    return _defined(sampled, found, float_ops)


def summed_costs(sampled: TracedLoop, float_ops: FloatOps | None = None) -> Costs:
    """Return what each node cost in all traced steps together, in columns as `sampled_costs`."""
    everywhere = np.ones(len(sampled.executions), dtype=np.bool_)
    return _defined(sampled, _sums(sampled, everywhere, float_ops), float_ops)


def _sums(sampled: TracedLoop, chosen: npt.NDArray[np.bool_], float_ops: FloatOps | None) -> Int64s:
    """Return what the rows chosen come to for each node, in those columns that rows tell of."""
    rows = sampled.executions
    count = len(sampled.graph.nodes)
    found = np.zeros((count, len(COLUMNS)), dtype=np.int64)
    on_host = chosen & (rows.place == Place.HOST)
    on_accelerator = chosen & (rows.place != Place.HOST)

    def total(of: npt.NDArray[np.bool_], amount: Int64s | None = None) -> Int64s:
        # Exact: a sum of ns stays below 2**53, a hundred days.
        weights = None if amount is None else amount[of].astype(np.float64)
        return np.bincount(sampled.node[of], weights, minlength=count).astype(np.int64)

    found[:, AT["cpu_ns"]] = total(on_host, rows.duration_ns)
    found[:, AT["accelerator_ns"]] = total(on_accelerator, rows.duration_ns)
    found[:, AT["bytes"]] = total(chosen, rows.bytes)
    found[:, AT["output_bytes"]] = total(on_host, rows.output_bytes)
    if float_ops is not None:
        # In whole numbers: a sum of these may go beyond 2**53.
        np.add.at(found[:, AT["float_ops"]], sampled.node[chosen], float_ops.of_rows[chosen])
    launches, kernels = total(on_host), total(on_accelerator)
    found[:, AT["runs"]] = np.where(launches > 0, launches, kernels)
    return found


def _defined(sampled: TracedLoop, found: Int64s, float_ops: FloatOps | None) -> Costs:
    """Complete sums by what follows from them, and by what the graph says."""
    count = len(found)
    found[:, AT["time_ns"]] = found[:, AT["cpu_ns"]] + found[:, AT["accelerator_ns"]]
    found[:, AT["params"]] = [
        _bounded(parameter, count) for parameter in parameters(sampled.graph.nodes)
    ]
    found[:, AT["definitions"]] = 1
    if float_ops is not None:
        found[:, AT["known_float_ops"]] = found[:, AT["runs"]] > 0
        found[list(float_ops.unknown), AT["known_float_ops"]] = 0
    return Costs(found)


def known_columns(sampled: TracedLoop, float_ops: FloatOps | None) -> tuple[str, ...]:
    """Return the columns of `sampled_costs` that the recording tells of; the others are 0."""
    unknown = {"peak_bytes", "residual_bytes"}
    if not sampled.has_memory:
        unknown |= {"bytes", "output_bytes"}
    if not sampled.has_graph:
        unknown |= {"params"}
    if float_ops is None or not float_ops.of_rows.any():
        unknown |= {"float_ops"}
    return tuple(name for name in COLUMNS if name not in unknown)


def has_float_ops(row: Int64s) -> bool:
    """Say whether float operations are known of anything in a row of costs, or nothing ran."""
    return bool(row[AT["known_float_ops"]] > 0 or row[AT["runs"]] == 0)


def _steps_of_each(node: Int32s, capture: Int32s, count: int) -> Int64s:
    """Return in how many captures each of `count` nodes has rows."""
    steps = np.zeros(count, dtype=np.int64)
    # A table of nodes and captures, some captures at once: sorting ten million pairs takes longer.
    captures = int(capture.max(initial=-1)) + 1
    width = max(1, min(captures, _TABLE_BYTES // max(count, 1)))
    for first in range(0, captures, width):
        chosen = (capture >= first) & (capture < first + width)
        is_in = np.zeros((count, width), dtype=np.bool_)
        is_in[node[chosen], capture[chosen] - first] = True
        steps += is_in.sum(axis=1)
    return steps


def column(metric: str) -> int:
    """Return where in a row of costs a metric of tfprof's options stands."""
    return AT[_COLUMN_OF.get(metric, metric)]


def value(row: Int64s, metric: str) -> int:
    """Return a metric of tfprof's options from a row of costs, in the unit of its name."""
    at = column(metric)
    return int(row[at]) // (NS_PER_US if COLUMNS[at].endswith("_ns") else 1)


def nothing() -> Int64s:
    """Return a row of costs that are all 0."""
    return np.zeros(len(COLUMNS), dtype=np.int64)


def _bounded(amount: int, count: int) -> int:
    """Return an amount that `count` of can be added up in 64 bits."""
    if abs(amount) * count > _MOST:
        raise UnreadableInput(
            f"A node has {amount:,} of something that no machine has: the profile is damaged."
        )
    return amount


def _in_step(records: Mapping[int, Record], step: int, of_record: Callable[[Record], int]) -> int:
    if step != _AVERAGE:
        return of_record(records[step]) if step in records else 0
    if not records:
        return 0
    return _cut(sum(map(of_record, records.values())), len(records))


def _cut(total: int, count: int) -> int:
    """Divide as C++ does: towards 0."""
    return total // count if total >= 0 else -(-total // count)


def _sum_us(spans_by_device: Iterable[Sequence[Span]]) -> int:
    return sum(span.duration_us for spans in spans_by_device for span in spans)
