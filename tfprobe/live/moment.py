"""Say what moment a look is on the clocks of the processes it looks at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tfprobe.profile.profile import Work
from tfprobe.runs.liveness import Machine
from tfprobe.runs.manifests import ProcessManifest
from tfprobe.runs.process_folder.steps_layout import Header, WorkRecord


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of this machine, in ns: the monotonic one, and the one that somebody may set."""

    mono_ns: Callable[[], int] = time.monotonic_ns
    unix_ns: Callable[[], int] = time.time_ns


def now_mono_ns(
    header: Header,
    manifest: ProcessManifest | None,
    works: Iterable[Work] | Iterable[WorkRecord],
    here: Machine,
    clocks: Clocks,
) -> int:
    """Return this moment on the clock of a process, never before the end of its last step.

    One kernel has one monotonic clock. Of another, the moment noted on both clocks tells it, as far
    as the machines' clocks agree.
    """
    if manifest is not None and _is_one_kernel(manifest, here):
        now_ns = clocks.mono_ns()
    else:
        now_ns = clocks.unix_ns() - header.unix_ns(0)
    ends_ns = (int(work.recent.end_ns[-1]) for work in works if len(work.recent.end_ns))
    return max(now_ns, *ends_ns, header.moment_mono_ns)


def _is_one_kernel(manifest: ProcessManifest, here: Machine) -> bool:
    # Containers of one machine have names of their own, but one boot.
    if manifest.boot_id is not None and here.boot_id is not None:
        return manifest.boot_id == here.boot_id
    return manifest.host == here.host
