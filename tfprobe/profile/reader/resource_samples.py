"""Turn what processes and machines used into pulses on the wall clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tfprobe.errors import Missing
from tfprobe.profile.activities import NOT_NOTED, DevicePulse, Pulse, ThreadTimes
from tfprobe.runs.process_folder.resource_samples import (
    COUNTS,
    DEVICE_COUNTS,
    DEVICE_RATIOS,
    RATIOS,
    DeviceLine,
    MachineLog,
    PulseLine,
    PulseLog,
)

_UNTOLD = Missing("neither /proc nor the control group told it")
_NO_THREADS = Missing("the recording is of a version that did not note the CPU time of threads")
_OF_DEVICES = Missing("a sample of accelerators alone")
_NO_ANSWER = Missing("NVML did not tell it of this accelerator")


def pulses(log: PulseLog, *, process: int, unix_minus_monotonic_ns: int) -> tuple[Pulse, ...]:
    """Return the pulses of a process by time."""
    found = (_pulse(line, process, unix_minus_monotonic_ns) for line in log.lines)
    return tuple(sorted(found, key=lambda pulse: pulse.at_ns))


def machine_pulses(log: MachineLog, host: str) -> tuple[Pulse, ...]:
    """Return the pulses of a machine's accelerators by time."""
    # Any: counts and ratios are told apart by their names.
    nothing: dict[str, Any] = dict.fromkeys((*COUNTS, *RATIOS), _OF_DEVICES)
    found = (
        Pulse(
            process=None,
            at_ns=line.unix_ns,
            steps=0,
            devices=tuple(map(_device, line.devices)),
            host=host,
            **nothing,
        )
        for line in log.lines
    )
    return tuple(sorted(found, key=lambda pulse: pulse.at_ns))


def _pulse(line: PulseLine, process: int, shift_ns: int) -> Pulse:
    told: dict[str, Any] = {**line.counts, **line.ratios}
    known: dict[str, Any] = {
        name: _UNTOLD if value is None else value for name, value in told.items()
    }
    return Pulse(
        process=process,
        at_ns=line.mono_ns + shift_ns,
        steps=line.steps,
        at_exit=line.at_exit,
        gc_pauses=tuple((start + shift_ns, end + shift_ns) for start, end in line.gc_pauses),
        thread_times=_thread_times(line, shift_ns),
        **known,
    )


def _thread_times(line: PulseLine, shift_ns: int) -> ThreadTimes | Missing:
    times = line.thread_times
    if times is None:
        return NOT_NOTED if line.notes_threads else _NO_THREADS
    if isinstance(times.since_ns, Missing):
        return times
    return replace(times, since_ns=times.since_ns + shift_ns)


def _device(line: DeviceLine) -> DevicePulse:
    told: dict[str, Any] = {**line.counts, **line.ratios}
    known: dict[str, Any] = {
        name: _NO_ANSWER if told.get(name) is None else told[name]
        for name in (*DEVICE_COUNTS, *DEVICE_RATIOS)
    }
    return DevicePulse(
        index=line.index, name=line.name, throttle_reasons=line.throttle_reasons, **known
    )
