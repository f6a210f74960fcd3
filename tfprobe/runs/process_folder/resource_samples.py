"""Read pulses.jsonl of a process, and what the GPU monitor wrote of a machine's accelerators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tfprobe.errors import Missing
from tfprobe.profile.activities import (
    NOT_NOTED,
    DeviceSample,
    ResourceSample,
    ThreadTimes,
    ThreadUse,
)
from tfprobe.runs.process_folder import jsonl

T = TypeVar("T")

NO_CLOCK = Missing("which thread it is was not told")
SINCE_ITS_START = Missing("the first sample tells of all the time before it")
NO_THREADS = Missing("the recording is of a version that did not note the CPU time of threads")
_UNTOLD = Missing("neither /proc nor the control group reports it")
_OF_DEVICES = Missing("a sample of accelerators alone")
_NO_ANSWER = Missing("NVML does not report it for this accelerator")

# A process writes a KB or two at a time; a machine as much for each of its accelerators, say 16.
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


def resource_sample_log(
    path: Path, *, process: int = 0, shift_ns: int = 0
) -> jsonl.Log[ResourceSample]:
    """Return a reader of the samples of a process, which may still write; see `jsonl.Log`.

    `shift_ns`, unix time less monotonic time, is added to their times.
    """
    parse = functools.partial(_resource_sample, process=process, shift_ns=shift_ns)
    return jsonl.Log(path, functools.partial(_of_object, parse))


def machine_log(path: Path, host: str) -> jsonl.Log[ResourceSample]:
    """Return a reader of the samples of a machine, whose monitor may still write."""
    return jsonl.Log(path, functools.partial(_of_object, functools.partial(_machine, host=host)))


def latest_resource_samples(
    path: Path, *, keep: int, process: int = 0, shift_ns: int = 0
) -> jsonl.Latest[ResourceSample]:
    """Return a reader of the latest samples of a process, which may still write."""
    parse = functools.partial(_resource_sample, process=process, shift_ns=shift_ns)
    return jsonl.Latest(path, parse, keep=keep, last_bytes=keep * _LINE_BYTES)


def latest_of_machine(path: Path, host: str, *, keep: int) -> jsonl.Latest[ResourceSample]:
    """Return a reader of the latest samples of a machine, whose monitor may still write."""
    parse = functools.partial(_machine, host=host)
    return jsonl.Latest(path, parse, keep=keep, last_bytes=keep * _LINE_BYTES)


def _of_object(parse: Callable[[jsonl.Json], T | None], line: bytes) -> T | None:
    fields = jsonl.object_of(line)
    return None if fields is None else parse(fields)


def _resource_sample(fields: jsonl.Json, *, process: int, shift_ns: int) -> ResourceSample | None:
    mono_ns, steps = jsonl.integer(fields, "mono_ns"), jsonl.integer(fields, "steps")
    if mono_ns is None or steps is None or steps < 0:
        return None
    no_threads = NOT_NOTED if "thread_times" in fields else NO_THREADS
    return ResourceSample(
        process=process,
        at_ns=mono_ns + shift_ns,
        steps=steps,
        at_exit=fields.get("at_exit") is True,
        gc_pauses=_pauses(fields.get("gc_pauses"), shift_ns),
        thread_times=_thread_times(fields.get("thread_times"), shift_ns) or no_threads,
        **_counts(fields, COUNTS, _UNTOLD),
        **_ratios(fields, RATIOS, _UNTOLD),
    )


def _thread_times(value: object, shift_ns: int) -> ThreadTimes | None:
    """Return what threads used, without rows that make no sense."""
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
        since_ns=SINCE_ITS_START if since_ns is None else since_ns + shift_ns,
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


def _pauses(value: object, shift_ns: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of a start and a later end."""
    pairs = value if isinstance(value, list) else []
    return tuple(
        (pair[0] + shift_ns, pair[1] + shift_ns)
        for pair in pairs
        if isinstance(pair, list)
        and len(pair) == 2
        and all(type(end) is int for end in pair)
        and pair[0] < pair[1]
    )


# What a sample of accelerators does not have. Any: fields by name.
_NOTHING: dict[str, Any] = dict.fromkeys((*COUNTS, *RATIOS), _OF_DEVICES)


def _machine(fields: jsonl.Json, *, host: str) -> ResourceSample | None:
    unix_ns, devices = jsonl.integer(fields, "unix_ns"), fields.get("devices")
    if unix_ns is None or not isinstance(devices, list):
        return None
    known = [_device(device) for device in devices if isinstance(device, dict)]
    return ResourceSample(
        process=None,
        at_ns=unix_ns,
        steps=0,
        devices=tuple(device for device in known if device is not None),
        host=host,
        **_NOTHING,
    )


def _device(fields: jsonl.Json) -> DeviceSample | None:
    index = jsonl.integer(fields, "index")
    if index is None:
        return None
    reasons = fields.get("throttle_reasons")
    return DeviceSample(
        index=index,
        name=jsonl.text(fields, "name") or "",
        throttle_reasons=tuple(map(str, reasons)) if isinstance(reasons, list) else (),
        **_counts(fields, DEVICE_COUNTS, _NO_ANSWER),
        **_ratios(fields, DEVICE_RATIOS, _NO_ANSWER),
    )


# Any: the fields of a record, by name.
def _counts(fields: jsonl.Json, names: Sequence[str], missing: Missing) -> dict[str, Any]:
    """Return integers; one below 0 is damage."""
    values = {name: jsonl.integer(fields, name) for name in names}
    return {
        name: missing if value is None or value < 0 else value for name, value in values.items()
    }


def _ratios(fields: jsonl.Json, names: Sequence[str], missing: Missing) -> dict[str, Any]:
    values = {name: jsonl.number(fields, name) for name in names}
    return {
        name: missing if value is None or value < 0 else value for name, value in values.items()
    }
