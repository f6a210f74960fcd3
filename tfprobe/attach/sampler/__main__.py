"""Sample a job: `python -m tfprobe.attach.sampler RUN HOST PID PYSPY own|shared`. Silent."""

from __future__ import annotations

import sys
from pathlib import Path

from tfprobe.attach.sampler.processes import JobProcesses
from tfprobe.attach.sampler.sampling import sample_until_end
from tfprobe.runs import sampler_lock
from tfprobe.runs.layout import RunFolder


def main(arguments: list[str]) -> int:
    """Sample until the job has ended."""
    run, host, pid, pyspy, share = arguments
    folder = RunFolder(Path(run))
    # Locked until this process ends: the report at the end of the job waits for the last stacks.
    sampler_lock.hold(folder)
    processes = JobProcesses(folder, host, int(pid), is_shared=share == "shared")
    try:
        sample_until_end(folder, processes, pyspy)
    except OSError:
        return 1  # a full disk or a removed run directory: there is nowhere to report it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
