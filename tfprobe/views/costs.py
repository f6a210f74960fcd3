"""What each node of a graph costs in a step, in columns; and what several cost together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from tfprobe.model.graph import Node
from tfprobe.model.records import GraphProfile, Record, Span

Int64s = npt.NDArray[np.int64]

# The columns of a row of costs. `definitions` counts nodes, and the scopes above them.
COLUMNS: tuple[str, ...] = (
    "bytes",
    "peak_bytes",
    "residual_bytes",
    "output_bytes",
    "micros",
    "accelerator_micros",
    "cpu_micros",
    "params",
    "float_ops",
    "runs",
    "definitions",
)
AT: Mapping[str, int] = {name: at for at, name in enumerate(COLUMNS)}
_AVERAGE = -1

_OF_RECORD: Mapping[str, Callable[[Record], int]] = {
    "bytes": lambda record: sum(each.requested_bytes for each in record.memory),
    "peak_bytes": lambda record: sum(each.peak_bytes for each in record.memory),
    "residual_bytes": lambda record: sum(each.residual_bytes for each in record.memory),
    "output_bytes": lambda record: sum(each.output_bytes for each in record.memory),
    "accelerator_micros": lambda record: _sum_us(record.accelerator.values()),
    "cpu_micros": lambda record: _sum_us(record.cpu.values()),
    "micros": lambda record: _sum_us(record.accelerator.values()) + _sum_us(record.cpu.values()),
    "runs": lambda record: record.run_count,
}


@dataclass(frozen=True, slots=True)
class Costs:
    """One row for each node of a graph, by node id; columns are COLUMNS."""

    rows: Int64s


def costs(profile: GraphProfile, step: int) -> Costs:
    """Return what each node cost in `step`; of -1, on average over the steps in which it ran.

    Averages are cut to whole numbers, each by itself, as tfprof's are.
    """
    rows = np.zeros((len(profile.graph.nodes), len(COLUMNS)), dtype=np.int64)
    for at, (node, records) in enumerate(zip(profile.graph.nodes, profile.records, strict=True)):
        row = rows[at]
        for name, of_record in _OF_RECORD.items():
            row[AT[name]] = _in_step(records, step, of_record)
        row[AT["params"]] = parameters(node)
        runs = int(row[AT["runs"]])
        row[AT["float_ops"]] = node.float_ops * runs if records else node.float_ops
        row[AT["definitions"]] = 1
    return Costs(rows)


def nothing() -> Int64s:
    """Return a row of costs that are all 0."""
    return np.zeros(len(COLUMNS), dtype=np.int64)


def parameters(node: Node) -> int:
    """Return how many numbers a variable holds; 0 for other nodes and for unknown shapes."""
    if not node.shape or min(node.shape) < 0:
        return 0
    return prod(node.shape)


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
