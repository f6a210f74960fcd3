"""Gather what is known of a process besides its works."""

from __future__ import annotations

import re

from tfprobe.advice.finding import Subject
from tfprobe.advice.gather.machine import machine
from tfprobe.advice.signals import ActivityUse, ProcessSignals
from tfprobe.errors import Missing
from tfprobe.model.activities import Activity
from tfprobe.model.profile import Process, Profile
from tfprobe.views import overhead

# A device that steps run on, as TensorFlow names it; those of the host are no accelerators.
_DEVICE = re.compile(r"device:(?!(?:XLA_)?CPU:)[A-Z_]+:\d+", re.IGNORECASE)


def process_signals(profile: Profile, process: Process, loop_ns: int) -> ProcessSignals:
    """Return the signals of a process; `loop_ns` is that of the thread with most steps."""
    cost = overhead.measure(process, profile.works)
    return ProcessSignals(
        subject=Subject(host=process.host, pid=process.pid, rank=process.rank),
        overhead_ns=cost if isinstance(cost, Missing) else cost.traced_ns + cost.hook_ns,
        wall_ns=0 if isinstance(cost, Missing) else cost.wall_ns,
        settings=process.settings,
        activities=_activities(profile, process.index),
        machine=machine(profile, process.index),
        has_accelerator=has_accelerator(process),
        loop_ns=loop_ns,
    )


def has_accelerator(process: Process) -> bool:
    """Say whether the process has a device besides the host's."""
    if isinstance(process.devices, Missing):
        return False
    return any(_DEVICE.search(name) for name in process.devices)


def _activities(profile: Profile, process: int) -> tuple[ActivityUse, ...]:
    """Return activities while steps ran: totals less what ended before the first step began."""
    began = [work.first_seen_ns for work in profile.works if work.process == process]
    first_ns = min((each for each in began if each), default=0)
    latest: dict[tuple[str, str, str], Activity] = {}
    before: dict[tuple[str, str, str], Activity] = {}
    for each in sorted(
        (each for each in profile.activities if each.process == process),
        key=lambda each: (each.end_ns, each.count),
    ):
        key = (each.kind, each.name, each.thread)
        latest[key] = each
        if each.end_ns <= first_ns:
            before[key] = each
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for key, last in latest.items():
        early = before.get(key)
        count, total_ns = found.get(key[:2], (0, 0))
        count += last.count - (early.count if early else 0)
        total_ns += last.total_ns - (early.total_ns if early else 0)
        found[key[:2]] = (count, total_ns)
    uses = [ActivityUse(*key, *value) for key, value in found.items() if value[0] > 0]
    return tuple(sorted(uses, key=lambda use: -use.total_ns))
