"""Make what the four tiers are told by: activities, driver calls, samples of machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.profiles import executions
from tests.support.rundir import UNIX_NS
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity, DeviceSample, ResourceSample
from tfprobe.profile.capture_tables import Executions, Row, SpanKind, Spans
from tfprobe.profile.tables import Columns, Interner, TableBuilder

SECOND_NS = 1_000_000_000
UNKNOWN = Missing("nobody asked")


def activity(kind: str, name: str, start_ms: int, end_ms: int, **changes: Any) -> Activity:
    """Return the only interval of its kind and name; times are ms from the start of the run."""
    facts: dict[str, Any] = {
        "process": 0,
        "kind": kind,
        "name": name,
        "thread": "MainThread",
        "start_ns": UNIX_NS + start_ms * 1_000_000,
        "end_ns": UNIX_NS + end_ms * 1_000_000,
        "count": 1,
        "total_ns": (end_ms - start_ms) * 1_000_000,
    }
    return Activity(**{**facts, **changes})


def resource_sample(at_s: float, **changes: Any) -> ResourceSample:
    """Return a sample that tells nothing but what is given; `at_s` is from the start of the run."""
    untold = dict.fromkeys(
        (
            "user_ns",
            "system_ns",
            "resident_bytes",
            "peak_resident_bytes",
            "threads",
            "voluntary_switches",
            "involuntary_switches",
            "read_bytes",
            "written_bytes",
            "cpus",
            "cpu_limit",
            "throttled_ns",
            "memory_limit_bytes",
            "machine_memory_bytes",
            "load_1min",
        ),
        UNKNOWN,
    )
    facts: dict[str, Any] = {"process": 0, "at_ns": UNIX_NS + round(at_s * SECOND_NS), "steps": 0}
    return ResourceSample(**{**facts, **untold, **changes})


def device_resource_sample(index: int = 0, **changes: Any) -> DeviceSample:
    """Return what NVML says of an H200 that computes a little."""
    facts: dict[str, Any] = {
        "index": index,
        "name": "NVIDIA H200",
        "utilization_ratio": 0.5,
        "memory_used_bytes": 40 * 2**30,
        "memory_total_bytes": 140 * 2**30,
        "power_watts": 350.0,
        "power_limit_watts": 700.0,
        "sm_clock_hz": 1_500_000_000,
        "max_sm_clock_hz": 1_980_000_000,
        "temperature_celsius": 50,
        "pcie_sent_bytes_per_s": 1_000_000,
        "pcie_received_bytes_per_s": 2_000_000_000,
    }
    return DeviceSample(**{**facts, **changes})


@dataclass
class Call:
    """A driver call; times are µs from the start of its step."""

    kind: SpanKind
    name: str
    start_us: int
    duration_us: int
    correlation: int = 0


def calls_and_rows(
    steps: Sequence[tuple[Iterable[Call], Iterable[Row]]],
) -> tuple[Spans, Executions]:
    """Return the driver calls and executions of some captures, numbered from 0."""
    interner = Interner()
    spans, rows = TableBuilder(Spans, interner), TableBuilder(Executions, interner)
    for capture, (calls, of_step) in enumerate(steps):
        columns = Columns(Spans)
        for each in calls:
            columns.add(
                1,
                kind=each.kind,
                name=interner.position(each.name),
                start_ns=UNIX_NS + each.start_us * 1000,
                duration_ns=each.duration_us * 1000,
                correlation=each.correlation,
            )
        spans.add(capture, columns.rows(interner))
        rows.add(capture, executions(of_step, interner))
    return spans.table(), rows.table()
