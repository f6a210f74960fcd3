"""Measure what a job of many ranks costs to read: `run.py [-n PROCESSES] [--only NAME]`.

All figures and their ratios are of one call. Runs that are missing are made of a real recording and
kept in the cache: 11 MB for each process. `--small` says only whether all of it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(HERE)]

import recorded  # noqa: E402
from footprint import Took, process  # noqa: E402
from generate import Wanted, made  # noqa: E402

MIB = 2**20
GIB = 2**30
REPORT_S, REPORT_BYTES, AGAIN_S, GROWTH_RATIO = 60, 2 * GIB, 3, 1.10
DASK_RATIO = 1.7
TABLE_BYTES = 25
# For which the targets are; of fewer processes a part of the time.
TARGET_PROCESSES = 1000
# Processes that are also read by other means, or twice: as many as tell enough.
SOME = 50
BY_HAND_CAPTURES, BY_TFPROF_CAPTURES = 100, 5
QUERY = """select op_type, count(*) as executions, sum(duration_ns) / 1e6 as ms
from executions where place = 'host' group by op_type order by ms desc limit 10"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `kept` is None where there is nothing to keep."""

    what: str
    ours: str
    result: str = ""
    target: str = ""
    kept: bool | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be measured: so many processes at most, and how many times what is compared."""

    processes: int
    pairs: int
    captures: int
    made_cases: int

    def run(self, processes: int) -> Path:
        """Return a run of so many."""
        return made(Wanted(processes, self.captures), recorded.folder())


def main(argv: Sequence[str]) -> int:
    """Run the benchmarks asked for and print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--processes", type=int, default=TARGET_PROCESSES)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a handful of processes: does it run?")
    parser.add_argument("--only", choices=sorted(PARTS))
    asked = parser.parse_args(argv)
    wanted = Asked(asked.processes, asked.pairs, recorded.CAPTURES, 100)
    if asked.small:
        wanted = Asked(8, 1, 2, 2)
    print(f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}\n")
    print("| what | took | result | target | kept |\n|---|---|---|---|---|", flush=True)
    for name in [asked.only] if asked.only else PARTS:
        for row in PARTS[name](wanted):
            kept = {None: "", True: "yes", False: "no"}[row.kept]
            cells = (row.what, row.ours, row.result, row.target, kept)
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0


def reports(asked: Asked) -> Iterator[Row]:
    """Yield what a report takes, from the first time, of more and more processes."""
    sizes = [asked.processes // 4, asked.processes // 2, asked.processes]
    # Whoever records on this machine has the files in memory, as far as they fit.
    for where, prepared in (("files in memory", _read), ("files on the disk", _dropped)):
        taken = {}
        for size in sizes:
            taken[size] = _first_time(prepared(asked.run(size)))
            yield _report(size, where, taken[size])
        yield from _growth(where, taken)
    run = asked.run(sizes[-1])
    again = _median([_tfprobe("report", str(run)) for _ in range(asked.pairs)])
    yield Row(
        f"the same again, {asked.processes:,} processes",
        *_times(again),
        f"{AGAIN_S} s",
        again.wall_s <= AGAIN_S,
    )
    advised = _tfprobe("advise", str(run))
    yield Row(f"advise after it, {asked.processes:,} processes", *_times(advised))


def _report(size: int, where: str, took: Took) -> Row:
    what = f"report, {size:,} processes, {where}"
    if size != TARGET_PROCESSES:
        return Row(what, *_times(took))
    kept = took.wall_s <= REPORT_S and took.peak_bytes <= REPORT_BYTES
    return Row(what, *_times(took), f"{REPORT_S} s, {REPORT_BYTES // GIB} GiB", kept)


def _growth(where: str, taken: dict[int, Took]) -> Iterator[Row]:
    for smaller, larger in itertools.pairwise(taken):
        ratio = taken[larger].wall_s / taken[smaller].wall_s
        per_size = ratio / (larger / smaller)
        yield Row(
            f"{larger:,} processes beside {smaller:,}, by their number, {where}",
            f"{taken[smaller].wall_s:.1f} s, {taken[larger].wall_s:.1f} s",
            f"x {per_size:.2f}",
            f"x {GROWTH_RATIO:.2f}",
            per_size <= GROWTH_RATIO,
        )


def workers(asked: Asked) -> Iterator[Row]:
    """Yield what two workers take beside one, of this machine and of a Dask cluster."""
    # Of few processes what each command does once, to begin and to end, is most of it.
    size = asked.processes
    run = asked.run(size)
    ratio, one, two = _by_turns(asked, run, ("--workers", "1"), ("--workers", "2"))
    yield Row(
        f"report by one process and by two, {size} processes",
        f"{one.wall_s:.1f} s, {two.wall_s:.1f} s",
        f"x {ratio:.2f}",
    )
    with _cluster(1) as of_one, _cluster(2) as of_two:
        ratio, one, two = _by_turns(asked, run, ("--dask", of_one), ("--dask", of_two))
    yield Row(
        f"report by one Dask worker and by two, {size} processes",
        f"{one.wall_s:.1f} s, {two.wall_s:.1f} s",
        f"x {ratio:.2f}",
        f"x {DASK_RATIO}",
        ratio >= DASK_RATIO,
    )


def by_hand(asked: Asked) -> Iterator[Row]:
    """Yield what TensorFlow's own means take for the times of ops alone, beside our report."""
    size = min(SOME, asked.processes)
    run = asked.run(size)
    ours = _first_time(run, "--workers", "1")
    files = sorted(run.glob("*/*/captures/*.pb"))
    ours_ms = 1000 * ours.wall_s / len(files)
    graph = next(run.glob("*/*/graphs/*.graph.pb"))
    # A loop reads every 10th, so that the first captures of processes, which are larger, are few.
    some = files[:: max(1, len(files) // BY_HAND_CAPTURES)]
    yield Row(f"whole report, one process, {len(files):,} captures", f"{ours_ms:.1f} ms a capture")
    for how, what, taken in (
        ("loop", "sums of op times in a Python loop over TensorFlow's messages", some),
        ("tfprof", "tfprof: `Profiler.add_step`", [graph, *some[:BY_TFPROF_CAPTURES]]),
    ):
        job = [recorded.python(), str(HERE / "jobs" / "by_hand.py"), how, *map(str, taken)]
        captures = len(taken) - (how == "tfprof")
        theirs_ms = 1000 * float(process(job).output.split()[-1]) / captures
        yield Row(what, f"{theirs_ms:.1f} ms a capture", f"x {theirs_ms / ours_ms:.1f} of ours")


def tables(asked: Asked) -> Iterator[Row]:
    """Yield what tables take on disk, and what a question of them takes."""
    size = min(SOME, asked.processes)
    run = asked.run(size)
    shutil.rmtree(run / "derived", ignore_errors=True)
    first = _tfprobe("sql", str(run), QUERY)
    counted = _tfprobe("sql", str(run), "--json", "select count(*) as n from executions")
    [[executions]] = json.loads(counted.output)["rows"]
    files = (run / "derived" / "tables").rglob("*.parquet")
    written = dict.fromkeys(("executions", "all"), 0)
    for path in files:
        written["all"] += path.stat().st_size
        # FOLDER.parquet has the executions, FOLDER.spans.parquet and others what else there is.
        written["executions"] += path.stat().st_size if path.name.count(".") == 1 else 0
    each = written["executions"] / executions
    yield Row(
        f"tables of {size} processes, {executions:,} node executions",
        f"{written['executions'] / MIB:.0f} MiB",
        f"{each:.1f} bytes a node execution",
        f"{TABLE_BYTES} bytes",
        each <= TABLE_BYTES,
    )
    yield Row(
        "with spans and allocations",
        f"{written['all'] / MIB:.0f} MiB",
        f"{written['all'] / executions:.1f} bytes a node execution",
    )
    again = _median([_tfprobe("sql", str(run), QUERY) for _ in range(asked.pairs)])
    yield Row("`tfprobe sql` by op, first time", *_times(first))
    yield Row("`tfprobe sql` by op, from the tables", *_times(again))


def recordings(_: Asked) -> Iterator[Row]:
    """Yield what lies on disk for a process, by what it is: the constants of docs/scale.md."""
    (real,) = recorded.rank("session").glob("*/*/process.json")
    captures = sorted((real.parent / "captures").iterdir())
    usual = statistics.median(path.stat().st_size for path in captures)
    allocated = sum(
        path.stat().st_blocks * 512 for path in real.parent.rglob("*") if path.is_file()
    )
    count = sum(1 for path in real.parent.rglob("*") if path.is_file())
    steps = (real.parent / "steps.bin").stat()
    graphs = sum(path.stat().st_size for path in real.parent.glob("graphs/*"))
    code = sum(path.stat().st_size for path in real.parent.glob("code/*"))
    small = sum(path.stat().st_size for path in real.parent.glob("*.json*"))
    yield Row("a recorded rank on disk", f"{allocated / 1e6:.1f} MB", f"{count} files")
    yield Row("a capture of 2,000 node executions", f"{usual / 1e3:.0f} kB")
    yield Row("steps.bin", f"{steps.st_blocks * 512 / 1e3:.0f} kB")
    yield Row("graph and code map", f"{graphs / 1e3:.0f} kB, {code / 1e3:.0f} kB")
    yield Row("events, gaps, pulses, activities", f"{small / 1e3:.0f} kB")


def made_up(asked: Asked) -> Iterator[Row]:
    """Yield what is told of jobs whose truth is known: clocks and slow ranks."""
    for name in ("clocks", "stragglers"):
        script = HERE / f"{name}.py"
        if script.exists():
            # They end with 1 where a case is not as it should be, and say which.
            took = process([sys.executable, str(script), str(asked.made_cases)], statuses=(0, 1))
            for line in took.output.strip().splitlines():
                yield Row(f"{name}: {line.replace('|', '/')}", "")


PARTS: dict[str, Callable[[Asked], Iterator[Row]]] = {
    "recordings": recordings,
    "reports": reports,
    "workers": workers,
    "by_hand": by_hand,
    "tables": tables,
    "made_up": made_up,
}


def _read(run: Path) -> Path:
    """Read all files of a run, so that they are in memory."""
    for path in _files(run):
        path.read_bytes()
    return run


def _dropped(run: Path) -> Path:
    """Let the system forget all files of a run, so that they come from the disk."""
    for path in _files(run):
        descriptor = os.open(path, os.O_RDONLY)
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    return run


def _files(run: Path) -> list[Path]:
    return [path for path in run.rglob("*") if path.is_file()]


def _first_time(run: Path, *flags: str) -> Took:
    """Ask for a report of which nothing is kept."""
    shutil.rmtree(run / "derived", ignore_errors=True)
    return _tfprobe("report", str(run), *flags)


def _tfprobe(*arguments: str) -> Took:
    return process([sys.executable, "-m", "tfprobe", *arguments])


def _by_turns(
    asked: Asked, run: Path, first: tuple[str, str], second: tuple[str, str]
) -> tuple[float, Took, Took]:
    """Return by how much the second is faster, the median of pairs, and both medians."""
    pairs = [(_first_time(run, *first), _first_time(run, *second)) for _ in range(asked.pairs)]
    ratio = statistics.median(a.wall_s / b.wall_s for a, b in pairs)
    return ratio, _median([a for a, _ in pairs]), _median([b for _, b in pairs])


def _median(taken: Sequence[Took]) -> Took:
    return sorted(taken, key=lambda each: each.wall_s)[len(taken) // 2]


def _times(took: Took) -> tuple[str, str]:
    return f"{took.wall_s:.1f} s, CPU {took.cpu_s:.1f} s", f"{took.peak_bytes / MIB:,.0f} MiB"


@contextlib.contextmanager
def _cluster(count: int) -> Iterator[str]:
    """Run a Dask cluster of so many workers; yield its address."""
    command = [sys.executable, str(HERE / "cluster.py"), str(count)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        yield started.stdout.readline().strip()
        # Leaving closes its stdin, at which it ends.


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
