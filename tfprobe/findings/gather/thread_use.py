"""Gather the CPU time of the thread that runs steps, and of Python's other threads beside it."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.system.thread_times import ThreadGroup, thread_times
from tfprobe.errors import Missing
from tfprobe.findings.signals import PythonThread, ThreadUse
from tfprobe.profile.activities import Pulse, ThreadTimes
from tfprobe.profile.profile import Profile

# The first thread, the one of which the kernel's wait for a CPU is noted.
_FIRST = "MainThread"
# Others that keep less of a CPU busy make no thread wait for one.
_OTHERS_CORES = 0.5


def thread_use(profile: Profile, process: int) -> ThreadUse | Missing:
    """Return what Python's threads used while steps ran, not what they did after the last."""
    pulses = sorted(
        (each for each in profile.pulses if each.process == process and not each.at_exit),
        key=lambda each: each.at_ns,
    )
    found = thread_times(_behind_first_step(pulses))
    if isinstance(found, Missing):
        return found
    if found.unmapped:
        return Missing("its Python does not tell which threads are its own, as from 3.7 on")
    python = [group for group in found.groups if group.is_python]
    of_steps = [group for group in python if group.runs_steps]
    if not of_steps:
        return Missing("no sample tells which thread runs the steps")
    if isinstance(found.run_delay_ns, Missing):
        return found.run_delay_ns
    if len(of_steps) != 1 or of_steps[0].name != _FIRST:
        return Missing("its steps run in other threads than the first")
    return ThreadUse(
        steps_cores=of_steps[0].cores,
        delay_ratio=found.run_delay_ns / max(found.watched_ns, 1),
        is_alone=_is_alone(pulses),
        others=tuple(_thread(group) for group in python if not group.runs_steps),
    )


def _behind_first_step(pulses: Sequence[Pulse]) -> Sequence[Pulse]:
    """Leave the time of the first step out, which traces and compiles, where there is another."""
    later = [pulse for pulse in pulses if pulse.steps]
    sampled = [pulse for pulse in later if isinstance(pulse.thread_times, ThreadTimes)]
    return later if len(sampled) > 1 else pulses


def _is_alone(pulses: Sequence[Pulse]) -> bool:
    """Say whether others had next to nothing of the machine's CPUs; not if that is unknown."""
    known = [
        (
            pulse.at_ns,
            pulse.machine_busy_ns + pulse.machine_steal_ns,
            pulse.user_ns + pulse.system_ns,
        )
        for pulse in pulses
        if not isinstance(pulse.machine_busy_ns, Missing)
        and not isinstance(pulse.machine_steal_ns, Missing)
        and not isinstance(pulse.user_ns, Missing)
        and not isinstance(pulse.system_ns, Missing)
    ]
    if len(known) < 2:
        return False
    passed_ns, busy_ns, own_ns = (
        last - first for first, last in zip(known[0], known[-1], strict=True)
    )
    return busy_ns - own_ns < _OTHERS_CORES * passed_ns


def _thread(group: ThreadGroup) -> PythonThread:
    stand = group.stands[0] if group.stands else None
    samples = sum(each.samples for each in group.stands)
    in_python = sum(each.in_python for each in group.stands)
    return PythonThread(
        name=group.name,
        cores=group.cores,
        source="" if stand is None else f"{stand.file}:{stand.line}",
        function="" if stand is None else stand.function,
        in_python_ratio=in_python / samples if samples else 0.0,
    )
