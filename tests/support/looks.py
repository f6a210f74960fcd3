"""Make looks at many runs in memory: for tests of whoever shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.profiles import process as written_process
from tests.support.profiles import timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.errors import Missing
from tfprobe.profile.activities import DeviceSample, ResourceSample
from tfprobe.profile.profile import Loop, Run
from tfprobe.profile.snapshots import (
    FleetSnapshot,
    LoopShares,
    ProcessSnapshot,
    RunSnapshot,
    TraceRequestState,
    WallTime,
)

SECOND_NS = 1_000_000_000
# A minute after the processes of these looks have started.
NOW_NS = UNIX_NS + 60 * SECOND_NS


def steps(count: int = 100, *, step_ns: int = 10_000_000, **changes: Any) -> Loop:
    """Return a loop of `count` steps of one length."""
    return timed_loop([step_ns] * count, **changes)


def resource_sample(**changes: Any) -> ResourceSample:
    """Return what a process used up to now."""
    facts: dict[str, Any] = {
        "process": 0,
        "at_ns": NOW_NS,
        "steps": 100,
        "user_ns": 50 * SECOND_NS,
        "system_ns": 2 * SECOND_NS,
        "resident_bytes": 500 << 20,
        "peak_resident_bytes": 600 << 20,
        "threads": 17,
        "voluntary_switches": 1000,
        "involuntary_switches": 10,
        "read_bytes": 1 << 20,
        "written_bytes": 2 << 20,
        "cpus": 8,
        "cpu_limit": Missing("none"),
        "throttled_ns": Missing("none"),
        "memory_limit_bytes": Missing("none"),
        "machine_memory_bytes": 16 << 30,
        "load_1min": 1.5,
        "major_faults": 3,
        "run_delay_ns": 4 * SECOND_NS,
        "gc_ns": SECOND_NS,
    }
    return ResourceSample(**{**facts, **changes})


def device(**changes: Any) -> DeviceSample:
    """Return what an accelerator does."""
    facts: dict[str, Any] = {
        "index": 0,
        "name": "NVIDIA H200",
        "utilization_ratio": 0.75,
        "memory_used_bytes": 1 << 30,
        "memory_total_bytes": 141 << 30,
        "power_watts": 350.0,
        "power_limit_watts": 700.0,
        "sm_clock_hz": 1_980_000_000,
        "max_sm_clock_hz": 1_980_000_000,
        "temperature_celsius": 55,
        "pcie_sent_bytes_per_s": 0,
        "pcie_received_bytes_per_s": 0,
    }
    return DeviceSample(**{**facts, **changes})


def process(loops: Sequence[Loop] | None = None, **changes: Any) -> ProcessSnapshot:
    """Return a running process; what a ProcessSnapshot has itself may be given, too."""
    own: dict[str, Any] = {
        "loops": (steps(),) if loops is None else tuple(loops),
        "now_mono_ns": MONO_NS + 60 * SECOND_NS,
        "request": TraceRequestState(1, 1, 3),
        "shares": LoopShares(0.25, 0.5, 0.125, 0.125, 3, NOW_NS - 5 * SECOND_NS),
        "wall_time": WallTime(
            60 * SECOND_NS,
            (("productive", 45 * SECOND_NS), ("not_known", 15 * SECOND_NS)),
            0.75,
        ),
        "resource_samples": (resource_sample(),),
    }
    own |= {name: changes.pop(name) for name in tuple(changes) if name in own}
    facts = {"state": "running", "unix_minus_monotonic_ns": UNIX_NS - MONO_NS, **changes}
    return ProcessSnapshot(process=written_process(**facts), **own)


def run(processes: Sequence[ProcessSnapshot] | None = None, **changes: Any) -> RunSnapshot:
    """Return a running run; what a Run has itself may be given, too."""
    facts: dict[str, Any] = {
        "id": "20261120-200418-train-4f2a9c",
        "command": ("python", "train.py"),
        "started": "2026-11-20T20:04:18+00:00",
        "state": "running",
    }
    facts |= {name: changes.pop(name) for name in tuple(changes) if name in (*facts, "directory")}
    own: dict[str, Any] = {
        "host": "node7",
        "user": "ada",
        "started_unix_ns": UNIX_NS,
        "processes": (process(),) if processes is None else tuple(processes),
    }
    return RunSnapshot(Run(**{"directory": f"/runs/{facts['id']}", **facts}), **{**own, **changes})


def fleet(*runs: RunSnapshot, **changes: Any) -> FleetSnapshot:
    """Return a look at these runs, or at one that runs."""
    found = runs or (run(),)
    return FleetSnapshot(**{"directory": "/runs", "at_unix_ns": NOW_NS, "runs": found, **changes})
