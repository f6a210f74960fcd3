"""Meter a job: `python -m tfprobe.attach.meter RUN HOST PID`. Never prints anything."""

from __future__ import annotations

import sys
from pathlib import Path

from tfprobe.attach.meter.sampling import Job, find_accelerators, sample_until_end
from tfprobe.runs.layout import RunFolder


def main(arguments: list[str]) -> int:
    """Sample until the job has ended; return at once if there is no accelerator."""
    run, host, pid = arguments
    folder = RunFolder(Path(run))
    accelerators = find_accelerators()
    if not accelerators:
        return 0
    try:
        sample_until_end(Job(folder, host, int(pid)), accelerators, folder.machine(host))
    except OSError:
        return 1  # a full disk or a removed run directory: there is nowhere to report it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
