"""Sample a job: `python -m tfprobe.sampler RUN HOST PID PYSPY own|shared`. Prints nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from tfprobe.sampler.processes import JobProcesses
from tfprobe.sampler.sampling import sample_until_end
from tfprobe.store import sampler_lock
from tfprobe.store.layout import RunFolder


def main(arguments: list[str]) -> int:
    """Sample until the job has ended."""
    run, host, pid, pyspy, share = arguments
    folder = RunFolder(Path(run))
    # Held until this process ends: whoever reports at the job's end waits for what comes last.
    sampler_lock.hold(folder)
    processes = JobProcesses(folder, host, int(pid), is_shared=share == "shared")
    try:
        sample_until_end(folder, processes, pyspy)
    except OSError:
        return 1  # a full disk, a run directory that somebody removed: nobody is there to be told
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
