"""Read pulses.jsonl of a process, and what a meter wrote of a machine's accelerators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tfprobe.errors import Missing
from tfprobe.profile.activities import ThreadTimes, ThreadUse
from tfprobe.runs.process_folder import jsonl

T = TypeVar("T")


NO_CLOCK = Missing("which thread it is was not told")
SINCE_ITS_START = Missing("the first sample tells of all the time before it")


@dataclass(frozen=True, slots=True)
class ResourceSampleLine:
    """What a process used up to one moment, monotonic ns. Numbers by name; None is not told.

    `gc_pauses` are starts and ends, monotonic ns, of the longest garbage collections since the
    line before. `notes_threads`: what wrote it knows of threads, be it in this line or another.
    """

    mono_ns: int
    steps: int
    counts: Mapping[str, int | None]
    ratios: Mapping[str, float | None]
    at_exit: bool = False
    gc_pauses: tuple[tuple[int, int], ...] = ()
    thread_times: ThreadTimes | None = None
    notes_threads: bool = False


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """What NVML told of one accelerator; None is not told."""

    index: int
    name: str
    counts: Mapping[str, int | None]
    ratios: Mapping[str, float | None]
    throttle_reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MachineLine:
    """The accelerators of a machine at one moment, unix ns."""

    unix_ns: int
    devices: tuple[DeviceLine, ...]


@dataclass(frozen=True, slots=True)
class ResourceSampleLog:
    """The pulses of a process, and how many lines could not be read."""

    lines: tuple[ResourceSampleLine, ...]
    bad_lines: int


@dataclass(frozen=True, slots=True)
class MachineLog:
    """The pulses of a machine's accelerators, and how many lines could not be read."""

    lines: tuple[MachineLine, ...]
    bad_lines: int


# A process tells a KB or two at a time; a machine as much of each of its accelerators, say 16.
_LINE_BYTES = 8 * 1024

COUNTS = (
    "user_ns",
    "system_ns",
    "resident_bytes",
    "peak_resident_bytes",
    "threads",
    "voluntary_switches",
    "involuntary_switches",
    "major_faults",
    "run_delay_ns",
    "gc_ns",
    "read_bytes",
    "written_bytes",
    "cpus",
    "throttled_ns",
    "memory_limit_bytes",
    "machine_memory_bytes",
    "machine_busy_ns",
    "machine_io_wait_ns",
    "machine_steal_ns",
)
RATIOS = ("cpu_limit", "load_1min")
DEVICE_COUNTS = (
    "memory_used_bytes",
    "memory_total_bytes",
    "sm_clock_hz",
    "max_sm_clock_hz",
    "temperature_celsius",
    "pcie_sent_bytes_per_s",
    "pcie_received_bytes_per_s",
)
DEVICE_RATIOS = ("utilization_ratio", "power_watts", "power_limit_watts")


def read_resource_samples(path: Path) -> ResourceSampleLog:
    """Read the pulses of one process; an absent file holds none."""
    log = resource_sample_log(path)
    return ResourceSampleLog(tuple(log.read().things), log.bad_lines)


def read_machine(path: Path) -> MachineLog:
    """Read the pulses of one machine's accelerators; an absent file holds none."""
    log = machine_log(path)
    return MachineLog(tuple(log.read().things), log.bad_lines)


def resource_sample_log(path: Path) -> jsonl.Log[ResourceSampleLine]:
    """Return a reader of the pulses of a process that may add more."""
    return jsonl.Log(path, functools.partial(_of_object, _resource_sample))


def machine_log(path: Path) -> jsonl.Log[MachineLine]:
    """Return a reader of the pulses of a machine whose meter may add more."""
    return jsonl.Log(path, functools.partial(_of_object, _machine))


def latest_resource_samples(path: Path, *, keep: int) -> jsonl.Latest[ResourceSampleLine]:
    """Return a reader of the latest pulses of a process that may add more."""
    return jsonl.Latest(path, _resource_sample, keep=keep, last_bytes=keep * _LINE_BYTES)


def latest_of_machine(path: Path, *, keep: int) -> jsonl.Latest[MachineLine]:
    """Return a reader of the latest pulses of a machine whose meter may add more."""
    return jsonl.Latest(path, _machine, keep=keep, last_bytes=keep * _LINE_BYTES)


def _of_object(parse: Callable[[jsonl.Json], T | None], line: bytes) -> T | None:
    fields = jsonl.object_of(line)
    return None if fields is None else parse(fields)


def _resource_sample(fields: jsonl.Json) -> ResourceSampleLine | None:
    mono_ns, steps = jsonl.integer(fields, "mono_ns"), jsonl.integer(fields, "steps")
    if mono_ns is None or steps is None or steps < 0:
        return None
    return ResourceSampleLine(
        mono_ns,
        steps,
        _counts(fields, COUNTS),
        _ratios(fields, RATIOS),
        at_exit=fields.get("at_exit") is True,
        gc_pauses=_pauses(fields.get("gc_pauses")),
        thread_times=_thread_times(fields.get("thread_times")),
        notes_threads="thread_times" in fields,
    )


def _thread_times(value: object) -> ThreadTimes | None:
    """Return what threads used; rows that are none are left out."""
    if not isinstance(value, dict):
        return None
    rows = (
        *map(_python_thread, _rows(value, "python")),
        *map(_guest, _rows(value, "guests")),
        *map(_native_threads, _rows(value, "native")),
    )
    unmapped = jsonl.integer(value, "unmapped")
    since_ns = jsonl.integer(value, "since_ns")
    return ThreadTimes(
        since_ns=SINCE_ITS_START if since_ns is None else since_ns,
        threads=tuple(row for row in rows if row is not None),
        unmapped=0 if unmapped is None else max(unmapped, 0),
    )


def _rows(fields: jsonl.Json, name: str) -> list[object]:
    rows = fields.get(name)
    return rows if isinstance(rows, list) else []


def _python_thread(row: object) -> ThreadUse | None:
    match row:
        case [str(name), int(count), int(cpu_ns), bool(runs_steps), *place] if _are_whole(
            count, cpu_ns
        ):
            return _placed(ThreadUse(name, True, count, cpu_ns, runs_steps), place)
    return None


def _guest(row: object) -> ThreadUse | None:
    return _placed(ThreadUse("", True, 1, NO_CLOCK), row)


def _native_threads(row: object) -> ThreadUse | None:
    match row:
        case [str(name), int(count), int(cpu_ns)] if _are_whole(count, cpu_ns):
            return ThreadUse(name, False, count, cpu_ns)
    return None


def _are_whole(*values: object) -> bool:
    return all(type(value) is int and 0 <= value < 1 << 63 for value in values)


def _placed(thread: ThreadUse, place: object) -> ThreadUse | None:
    match place:
        case [str(file), int(line), str(function), bool(is_in_python)] if _are_whole(line):
            return replace(
                thread, file=file, line=line, function=function, is_in_python=is_in_python
            )
    return None


def _pauses(value: object) -> tuple[tuple[int, int], ...]:
    """Return pairs of a start and a later end, and leave out what is none."""
    pairs = value if isinstance(value, list) else []
    return tuple(
        (pair[0], pair[1])
        for pair in pairs
        if isinstance(pair, list)
        and len(pair) == 2
        and all(type(each) is int for each in pair)
        and pair[0] < pair[1]
    )


def _machine(fields: jsonl.Json) -> MachineLine | None:
    unix_ns, devices = jsonl.integer(fields, "unix_ns"), fields.get("devices")
    if unix_ns is None or not isinstance(devices, list):
        return None
    found = [_device(device) for device in devices if isinstance(device, dict)]
    return MachineLine(unix_ns, tuple(device for device in found if device is not None))


def _device(fields: jsonl.Json) -> DeviceLine | None:
    index = jsonl.integer(fields, "index")
    if index is None:
        return None
    reasons = fields.get("throttle_reasons")
    return DeviceLine(
        index=index,
        name=jsonl.text(fields, "name") or "",
        counts=_counts(fields, DEVICE_COUNTS),
        ratios=_ratios(fields, DEVICE_RATIOS),
        throttle_reasons=tuple(map(str, reasons)) if isinstance(reasons, list) else (),
    )


def _counts(fields: jsonl.Json, names: tuple[str, ...]) -> dict[str, int | None]:
    """Return whole numbers; one below 0 is damage, and not told."""
    found = {name: jsonl.integer(fields, name) for name in names}
    return {name: None if value is None or value < 0 else value for name, value in found.items()}


def _ratios(fields: jsonl.Json, names: tuple[str, ...]) -> dict[str, float | None]:
    found = {name: jsonl.number(fields, name) for name in names}
    return {name: None if value is None or value < 0 else value for name, value in found.items()}
