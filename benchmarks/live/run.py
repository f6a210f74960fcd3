"""Measure what watching costs, who watches and who is watched: `python benchmarks/live/run.py`.

Phases in which somebody looks each second at 64 stepping processes, and phases in which nobody does
(the watcher is stopped), come by turns. How fast the jobs went in each is read from their own files
afterwards, so that nothing else runs beside them. What they differ by is held against what phases
without a watcher differ by among themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import platform
import pty
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from jobs_of import JOBS, Phase, Steps, rates, running, steps_of  # noqa: E402

WATCHERS = {
    "a look and its rows each second": [sys.executable, str(JOBS / "watching.py")],
    "`tfprobe top` in a terminal": [sys.executable, "-m", "tfprobe", "top"],
}
CORE_TARGET = 0.20
SLOWER_TARGET = 0.005
# Importing, and a first look that reads everything.
WARM_UP_S = 8


def main(argv: Sequence[str]) -> int:
    """Run the benchmark for each watcher there is, and print one table."""
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument("-n", "--phases", type=int, default=10, help="pairs of phases")
    parser.add_argument("--phase-s", type=float, default=5.0, help="how long a phase is")
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--step-ms", type=float, default=20.0)
    options = parser.parse_args(argv)
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, load {load:.1f} before\n")
    print("| who watches | what | bare | watched | result | noise | target | kept |")
    print("|---|---|---|---|---|---|---|---|")
    for name, command in WATCHERS.items():
        if command[-1] == "top" and not (ROOT / "tfprobe" / "cli" / "top.py").exists():
            continue  # it is not built yet
        with tempfile.TemporaryDirectory() as folder:
            _measure(name, command, Path(folder), options)
    return 0


def _measure(name: str, command: Sequence[str], folder: Path, options: argparse.Namespace) -> None:
    with running(folder, options.jobs, options.step_ms) as runs:
        with _watching([*command, str(runs)]) as watcher:
            time.sleep(WARM_UP_S)
            bare, watched, cpu_s = _phases(watcher, options.phases, options.phase_s)
        processes = steps_of(runs)
    seconds = sum(phase.end_ns - phase.begin_ns for phase in watched) / 1e9
    share = cpu_s / seconds
    kept = "yes" if share <= CORE_TARGET else "no"
    line = f"| {name} | share of a core | | {share:.1%} | | | {CORE_TARGET:.0%} | {kept} |"
    print(line, flush=True)
    for row in _slower(name, processes, bare, watched):
        print(row, flush=True)


def _slower(
    name: str, processes: list[Steps], bare: list[Phase], watched: list[Phase]
) -> Iterator[str]:
    """Compare each watched phase with the mean of the bare ones around it."""
    without = [rates(processes, phase) for phase in bare]
    with_it = [rates(processes, phase) for phase in watched]
    for index, (what, unit) in enumerate((("median step", "ms"), ("all steps", "steps/s"))):
        plain = [each[index] for each in without]
        other = [each[index] for each in with_it]
        around = [(a + b) / 2 for a, b in itertools.pairwise(plain)]
        ratios = [b / a for a, b in zip(around, other, strict=True)]
        # The same of bare phases alone: each against the mean of the ones beside it.
        beside = [(a + b) / 2 for a, b in zip(plain, plain[2:], strict=False)]
        by_chance = [b / a for a, b in zip(beside, plain[1:-1], strict=True)]
        ratio, noise = statistics.median(ratios), statistics.median(abs(r - 1) for r in by_chance)
        slower = ratio - 1 if index == 0 else 1 - ratio
        kept = "yes" if slower < SLOWER_TARGET else "no"
        yield (
            f"| {name} | {what} | {statistics.median(plain):.4g} {unit} "
            f"| {statistics.median(other):.4g} {unit} | x {ratio:.4f} | ±{noise:.2%} "
            f"| {SLOWER_TARGET:.1%} slower | {kept} |"
        )


def _phases(
    watcher: subprocess.Popen[bytes], count: int, phase_s: float
) -> tuple[list[Phase], list[Phase], float]:
    """Let the watcher run and stop by turns; return both kinds of phases, and its CPU seconds."""
    bare, watched = [], []
    began_s = _cpu_s(watcher.pid)
    for _ in range(count):
        os.kill(watcher.pid, signal.SIGSTOP)
        bare.append(_phase(phase_s))
        os.kill(watcher.pid, signal.SIGCONT)
        watched.append(_phase(phase_s))
    os.kill(watcher.pid, signal.SIGSTOP)
    cpu_s = _cpu_s(watcher.pid) - began_s
    bare.append(_phase(phase_s))
    return bare, watched, cpu_s


def _phase(phase_s: float) -> Phase:
    begin_ns = time.monotonic_ns()
    time.sleep(phase_s)
    return Phase(begin_ns, time.monotonic_ns())


@contextlib.contextmanager
def _watching(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a watcher in a terminal of its own, whose screen is read and thrown away."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    environment |= {"COLUMNS": "160", "LINES": "50"}
    watcher = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    threading.Thread(target=_throw_away, args=(ours,), daemon=True).start()
    try:
        yield watcher
        if watcher.poll() is not None:
            raise SystemExit(f"{' '.join(command)} ended with {watcher.returncode}.")
    finally:
        if watcher.poll() is None:
            watcher.kill()
        watcher.wait()


def _throw_away(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # the terminal's other end was closed
        while os.read(descriptor, 65536):
            pass


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process, of all its threads, user and system."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
