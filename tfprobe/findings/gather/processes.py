"""Gather what is known of a process besides its works."""

from __future__ import annotations

import re
from dataclasses import replace

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.core.releases import release_of
from tfprobe.analysis.core.source_lines import is_of_library
from tfprobe.analysis.steps import recording_overhead
from tfprobe.analysis.system.application import ProcessActivities
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject
from tfprobe.findings.gather.activities import activities
from tfprobe.findings.gather.machine import machine
from tfprobe.findings.gather.thread_use import thread_use
from tfprobe.findings.signals import ActivityUse, DeviceMemory, ProcessSignals
from tfprobe.profile.profile import Process, Profile

# A device that steps run on, as TensorFlow names it; those of the host are no accelerators.
_DEVICE = re.compile(r"device:(?!(?:XLA_)?CPU:)[A-Z_]+:\d+", re.IGNORECASE)


def process_signals(
    profile: Profile,
    did: ProcessActivities,
    memory: tuple[DeviceMemory, ...],
    account: Account | Missing,
    *,
    loop_ns: int,
) -> ProcessSignals:
    """Return the signals of a process; `loop_ns` is that of the thread with most steps."""
    process = did.process
    cost = recording_overhead.measure(process, profile.works)
    return ProcessSignals(
        subject=subject_of(process),
        overhead_ns=cost if isinstance(cost, Missing) else cost.traced_ns + cost.hook_ns,
        wall_ns=0 if isinstance(cost, Missing) else cost.wall_ns,
        settings=process.settings,
        activities=tuple(with_own_line(each, account) for each in activities(profile, did)),
        machine=machine(profile, process.index),
        device_memory=memory,
        has_accelerator=has_accelerator(process),
        loop_ns=loop_ns,
        group=process.group,
        release=release_of(process.tensorflow),
        account=account if isinstance(account, Missing) else replace(account, strip=None),
        own_profiler=process.own_profiler,
        threads=thread_use(profile, process.index),
        functions=frozenset(
            work.name
            for work in profile.works
            if work.process == process.index and work.kind == "function"
        ),
    )


def with_own_line(use: ActivityUse, account: Account | Missing) -> ActivityUse:
    """Return callbacks with the line of the job's own method, where a gap with it was watched."""
    if use.kind != "callbacks" or isinstance(account, Missing):
        return use
    method = use.name.rpartition(".")[2]
    items = (*account.items(Category.CALLBACKS), *account.items(Category.EPOCH_ENDS))
    own = (
        each.source
        for each in items
        if each.what == method and each.source and not is_of_library(each.source)
    )
    return replace(use, source=next(own, use.source))


def subject_of(process: Process, kind: str = "", name: str = "") -> Subject:
    """Return a process, or a work of it, as what a finding is of."""
    return Subject(process.host, process.pid or None, process.rank, kind, name, process.title)


def has_accelerator(process: Process) -> bool:
    """Say whether the process has a device besides the host's."""
    if isinstance(process.devices, Missing):
        return False
    return any(_DEVICE.search(name) for name in process.devices)
