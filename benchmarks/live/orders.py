"""Measure how many steps a job makes from an order to its first capture: prints one table.

`python benchmarks/live/orders.py`. An order is given when its last word is written. The capture
of step n is on disk before step n + 1 begins in that thread, which its event tells; "seen" is when
a process that does nothing but look has it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.matrix.cells import CELLS  # noqa: E402
from tests.matrix.environments import Unavailable, prepare  # noqa: E402
from tests.support import toy_tensorflow  # noqa: E402
from tfprobe.live.process_request import EventTail  # noqa: E402
from tfprobe.runs import trace_requests  # noqa: E402
from tfprobe.runs.layout import ProcessFolder, RunFolder  # noqa: E402
from tfprobe.runs.process_folder.steps_layout import HEADER_WORDS, count_steps  # noqa: E402

JOB = Path(__file__).resolve().parent / "jobs" / "endless.py"
TOY = "toy"
PATIENCE_S = 60
# The first steps trace, allocate, and are sampled by budget.
WARM_UP_STEPS = 30
# From this many steps after an order its capture would be late.
TARGET_STEPS = 2

# Of the first work, the only one these jobs have.
COUNT_WORD = HEADER_WORDS + 1
_PUT = trace_requests._put


@dataclass(frozen=True, slots=True)
class Job:
    """A job to ask: its argument, and the environment it runs in."""

    what: str
    argument: str
    cell: str = TOY


@dataclass(frozen=True, slots=True)
class Latency:
    """Of one order: steps until its capture is on disk; steps and ms until somebody sees it.

    `steps` from just before its last word is written, `steps_after` from just after that.
    """

    steps: int
    steps_after: int
    seen_steps: int
    seen_ms: float


JOBS = (
    Job("0.2 ms", "0.2"),
    Job("1 ms", "1"),
    Job("10 ms", "10"),
    Job("100 ms", "100"),
    Job("a Session", "session", "tf1.15-py3.7"),
    Job("a Session", "session", "tf2.21-py3.11"),
    Job("a tf.function", "function", "tf2.21-py3.11"),
)


def main(argv: Sequence[str]) -> int:
    """Ask each job by turns with and without waking it, and print the table as it grows."""
    parser = argparse.ArgumentParser(prog="orders.py", description=__doc__)
    parser.add_argument("-n", "--orders", type=int, default=40, help="orders for each number")
    options = parser.parse_args(argv)
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; "
          f"steps from an order to its capture on disk; {options.orders} of each\n")  # fmt: skip
    print("| a step | where | p50 | most | most, from after | seen, p50 | seen after, p50 "
          "| by polling, p50 | most | kept |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    missed = 0
    for job in JOBS:
        woken, polled = _measured(job, options.orders)
        most, after = max(e.steps for e in woken), max(e.steps_after for e in woken)
        missed += after > TARGET_STEPS
        print(f"| {job.what} | {job.cell} | {_median(each.steps for each in woken):.0f} "
              f"| {most} | {after} "
              f"| {_median(each.seen_steps for each in woken):.0f} "
              f"| {_median(each.seen_ms for each in woken):.1f} ms "
              f"| {_median(each.steps for each in polled):.0f} | {max(e.steps for e in polled)} "
              f"| {'yes' if after <= TARGET_STEPS else 'no'} |", flush=True)  # fmt: skip
    return 1 if missed else 0


def _measured(job: Job, count: int) -> tuple[list[Latency], list[Latency]]:
    with _running(job) as folder:
        taken = [(_asked(folder, wakes=True), _asked(folder, wakes=False)) for _ in range(count)]
    woken, polled = zip(*taken, strict=True)
    return list(woken), list(polled)


class _Moment:
    """Writes the control words, and notes how many steps there were around the last of them."""

    def __init__(self, *, wakes: bool) -> None:
        """Without waking, the job finds the order by itself: it looks every 10 ms."""
        self.before = self.after = 0
        self._wakes = wakes

    def order(self, path: Path) -> int:
        """Order one sample, as `tfprobe trace` does."""
        trace_requests._put = self._put
        try:
            return trace_requests.request_samples(path, samples=1)
        finally:
            trace_requests._put = _PUT

    def _put(self, descriptor: int, word: int, value: int) -> None:
        if not self._wakes and word > COUNT_WORD:
            return
        self.before = _count(descriptor)
        _PUT(descriptor, word, value)
        self.after = _count(descriptor)


def _count(descriptor: int) -> int:
    (count,) = struct.unpack("<q", os.pread(descriptor, 8, COUNT_WORD * 8))
    return int(count)


def _asked(folder: ProcessFolder, *, wakes: bool) -> Latency:
    # At any moment between two looks of the job.
    time.sleep(random.uniform(0.02, 0.05))
    hearing, moment = EventTail(folder.events), _Moment(wakes=wakes)
    began_s = time.perf_counter()
    number = moment.order(folder.steps)
    while not (captures := hearing.listen(number).captures):
        if time.perf_counter() - began_s > PATIENCE_S:
            raise SystemExit(f"{folder.root} has not answered")
    seen_s, seen = time.perf_counter(), count_steps(folder.steps)
    assert folder.capture(captures[0].file).exists()
    # Steps are counted from 0: so many had been made when this one was on disk.
    made = captures[0].step + 1
    milliseconds = (seen_s - began_s) * 1e3
    return Latency(made - moment.before, made - moment.after, seen - moment.before, milliseconds)


@contextlib.contextmanager
def _running(job: Job) -> Iterator[ProcessFolder]:
    """Give the folder of a job that steps."""
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1",
                       "PYTHONPATH": str(ROOT)}  # fmt: skip
        if job.cell == TOY:
            toy = toy_tensorflow.write(Path(place) / "packages")
            environment["PYTHONPATH"] += os.pathsep + str(toy)
        launch = [sys.executable, "-m", "tfprobe", "run", "-q", "--no-meter", "-o", f"{place}/runs"]
        process = subprocess.Popen(
            [*launch, "--steps", "0", "--", _python(job.cell), str(JOB), job.argument],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield _stepping(Path(place) / "runs", process)
        finally:
            process.kill()
            process.wait()


def _stepping(runs: Path, process: subprocess.Popen[bytes]) -> ProcessFolder:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s and process.poll() is None:
        for run in runs.glob("*"):
            for folder in RunFolder(run).processes():
                with contextlib.suppress(Exception):  # half-made
                    if count_steps(folder.steps) > WARM_UP_STEPS:
                        return folder
        time.sleep(0.1)
    raise SystemExit("the job does not step")


def _python(cell: str) -> str:
    if cell == TOY:
        return sys.executable
    try:
        return str(prepare(next(each for each in CELLS if each.name == cell)))
    except Unavailable as error:
        raise SystemExit(f"{cell} cannot be had here: {error}") from error


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
