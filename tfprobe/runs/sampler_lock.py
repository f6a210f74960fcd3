"""Tell whether a sampler of stacks still writes into a run: it holds a lock on boot/."""

from __future__ import annotations

import fcntl
import os
import time

from tfprobe.runs.layout import RunFolder

_PAUSE_S = 0.02


def hold(run: RunFolder) -> int | None:
    """Hold the lock until this process ends, with others; None where a file system has none."""
    return _locked(run, fcntl.LOCK_SH)


def wait_until_written(run: RunFolder, most_s: float) -> None:
    """Wait until nobody holds it, at most so long."""
    deadline_s = time.monotonic() + most_s
    while time.monotonic() < deadline_s:
        descriptor = _locked(run, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is not None:
            os.close(descriptor)
            return
        time.sleep(_PAUSE_S)


def _locked(run: RunFolder, operation: int) -> int | None:
    try:
        descriptor = os.open(run.boot, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
