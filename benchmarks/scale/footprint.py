"""Run a command and say what it and all processes that it starts took. Knows no target."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# A look at the maps of a process of a gigabyte takes about a millisecond.
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Took:
    """What a command took: `peak_bytes` is the sum over its processes, what they share once."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    output: str


def process(command: Sequence[str], *, statuses: Sequence[int] = (0,)) -> Took:
    """Run a command to its end; raise SystemExit with what it said on any other status."""
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, stderr=errors)
        with watched(child.pid) as peak:
            _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        if child.returncode not in statuses:
            errors.seek(0)
            told = errors.read().decode(errors="replace")[-3000:]
            raise SystemExit(f"{' '.join(command)} ended with {child.returncode}:\n{told}")
        text = output.read().decode()
    return Took(wall_s, usage.ru_utime + usage.ru_stime, peak.bytes, text)


@dataclass
class Peak:
    """The most that was seen until now."""

    bytes: int = 0


@contextlib.contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """Look at a process and all below it until the block ends."""
    peak, ended = Peak(), threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_EVERY_S):
            peak.bytes = max(peak.bytes, sum(map(_proportional_bytes, _tree(pid))))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def _tree(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _proportional_bytes(pid: int) -> int:
    """Return what a process occupies, of what it shares its part; 0 where it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
