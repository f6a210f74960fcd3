"""Measure how fast recordings are read, beside TensorFlow's own tools: `run.py [--only NAME]`.

Where two programs are compared they run by turns, and ratios are of one run. CPU time stands beside
wall time, since another program may be running. Recordings and environments that are missing are
made, and kept in the cache.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(HERE)]

import hlo_events  # noqa: E402
import kineto_events  # noqa: E402
import recordings  # noqa: E402
from measure import MIB, Once, Pair, pairs, process  # noqa: E402
from op_tables import compared  # noqa: E402

from tests.matrix.cells import CELLS  # noqa: E402
from tests.matrix.environments import prepare  # noqa: E402

JOBS = HERE / "jobs"
CELL = "tf2.21-py3.11"
# Steps of Profiler.add_step that are timed; the first of ours also pays for what it finds cold.
STEPS = 9

REPORT_RATIO = 5
FIRST_S = 0.3
STEP_RATIO = 50
LONG_S = 20
LONG_BYTES = 2 * 2**30
GROWTH = 11
HLO_EVENTS = 1_000_000
KINETO_BYTES = 100_000_000
KINETO_S = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `kept` is None where there is nothing to keep or to measure."""

    what: str
    theirs: str
    ours: str
    result: str
    target: str
    kept: bool | None


def main(argv: Sequence[str]) -> int:
    """Run the benchmarks asked for and print the table as it grows."""
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument("-n", "--pairs", type=int, default=5, help="pairs for each number")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    options = parser.parse_args(argv)
    chosen = [name for name in BENCHMARKS if not options.only or _is_in(name, options.only)]
    if options.list:
        print("\n".join(chosen))
        return 0
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores; by turns\n")
    print("| what | theirs | ours | result | target | kept |\n|---|---|---|---|---|---|")
    for name in chosen:
        for row in BENCHMARKS[name](options.pairs):
            kept = {True: "yes", False: "no", None: ""}[row.kept]
            cells = (row.what, row.theirs, row.ours, row.result, row.target, kept)
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0


def profile_report(count: int) -> list[Row]:
    """A report of a ProfileProto of 10 k ops, from cold process to last line."""
    files = recordings.inputs(_tensorflow())
    ours = [*_TFPROBE, "tfprof", f"--profile_path={files.profile}", "op"]
    found = pairs(_engine_report(files.profile), lambda: process(ours, _OURS), count)
    return _report_rows("`tfprobe tfprof op`, ProfileProto of 11,774 ops", found)


def recorded_report(count: int) -> list[Row]:
    """The same question to a recorded run of the same job."""
    files = recordings.inputs(_tensorflow())
    ours = [*_TFPROBE, "op", str(recordings.recorded(_tensorflow(), "session"))]
    found = pairs(_engine_report(files.profile), lambda: process(ours, _OURS), count)
    return _report_rows("`tfprobe op`, recorded run of 11,774 ops", found)


def add_step(count: int) -> list[Row]:
    """What one step more costs, of a graph of 10 k ops."""
    files = recordings.inputs(_tensorflow())
    large_graph = [_tensorflow(), str(JOBS / "large_graph.py"), "session", "--add-steps"]
    found: dict[str, list[float]] = {"theirs": [], "builder": [], "read": [], "profiler": []}
    for _ in range(max(1, count // 2)):
        found["theirs"] += _last_line(process([*large_graph, str(STEPS)]))
        for kind in ("builder", "read", "profiler"):
            job = [sys.executable, str(JOBS / "our_add_step.py"), kind]
            command = [*job, str(files.graph), str(files.step), str(STEPS)]
            found[kind] += _last_line(process(command, _OURS))
    read_ms = statistics.median(found["read"]) * 1000
    return [
        _step_row("a step more, GraphProfileBuilder.add_step", found["theirs"], found["builder"]),
        Row("the same, read when a report is asked for", "", f"{read_ms:.1f} ms", "", "", None),
        _step_row("a step more, tfprobe.tfprof.Profiler", found["theirs"], found["profiler"]),
    ]


def long_runs(count: int) -> list[Row]:  # noqa: ARG001 - each is long enough to be run once
    """Runs of a million and of ten million executions, of both kinds of capture."""
    rows = []
    for kind, what in (("session", "RunMetadata"), ("function", "XSpace")):
        taken = []
        for wanted in (1_000_000, 10_000_000):
            run, executions = recordings.long_run(_tensorflow(), kind, wanted)
            once = process([*_TFPROBE, "op", str(run)], _OURS)
            taken.append(once)
            kept = None
            if wanted == 10_000_000:
                kept = once.wall_s <= LONG_S and once.peak_bytes <= LONG_BYTES
            rows.append(
                Row(
                    f"`tfprobe op`, {executions:,} executions, {what}",
                    "",
                    f"{once.wall_s:.1f} s, CPU {once.user_s:.1f} s",
                    f"{once.peak_bytes / MIB:,.0f} MiB",
                    f"{LONG_S} s, 2 GiB" if kept is not None else "",
                    kept,
                )
            )
        growth = taken[1].user_s / taken[0].user_s
        what = f"ten times the executions, {what}"
        rows.append(Row(what, "", "", f"CPU x {growth:.1f}", f"x {GROWTH}", growth <= GROWTH))
    return rows


def beside_xprof(count: int) -> list[Row]:
    """The op table of one XSpace, beside xprof's: of one step, and of a hundred in a row."""
    rows = []
    for copies, what in ((1, "a step"), (100, "100 steps")):
        run = recordings.long_capture(_tensorflow(), copies)
        (capture,) = run.glob("*/*/captures/*.xplane.pb")
        found = pairs(
            functools.partial(_xprof, capture),
            functools.partial(process, [*_TFPROBE, "op", str(run)], _OURS),
            count,
        )
        rows.append(_compared(f"`tfprobe op` beside xprof, XSpace of {what}", found, 1))
        tables = compared(found.first.output, run)
        same = f"{tables.same} of {tables.shown} equal"
        kept = tables.same == tables.shown
        rows.append(Row("its ops, by runs and self time", "", "", same, "all", kept))
        for line in tables.differing[:5]:
            print(line, file=sys.stderr)
    return rows


def hlo_beside_xprof(count: int) -> list[Row]:
    """The op table of a million instructions of JAX beside xprof's, by kind of device."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for on_gpu, what in ((True, "kernels of a GPU"), (False, "instructions on a CPU")):
            capture = Path(folder) / "million.xplane.pb"
            hlo_events.write(capture, HLO_EVENTS, on_gpu=on_gpu)
            found = pairs(
                functools.partial(_xprof, capture),
                functools.partial(process, [*_TFPROBE, "op", str(capture)], _OURS),
                count,
            )
            what = f"`tfprobe op` beside xprof, a million {what} of JAX"
            rows.append(_compared(what, found, 1))
            peaks = (f"{each.peak_bytes / MIB:,.0f} MiB" for each in (found.first, found.second))
            is_small = found.second.peak_bytes <= LONG_BYTES
            rows.append(Row("memory of it", *peaks, "", "2 GiB", is_small))
    return rows


def decoding(count: int) -> list[Row]:
    """Captures into tables, beside protobuf asked for the same, each in CPU time of one process."""
    rows = []
    for kind, what in (("session", "RunMetadata"), ("function", "XSpace")):
        run, _ = recordings.long_run(_tensorflow(), kind, 50_000)
        job = [sys.executable, str(JOBS / "decode.py"), kind, str(run), str(count)]
        told = [json.loads(line) for line in process(job, _OURS).output.splitlines()]
        # The first pays for what is found out once.
        theirs, ours = (min(each[at] / each[2] for each in told[1:] or told) * 1e6 for at in (0, 1))
        figures = (f"{theirs:.1f} us a row", f"{ours:.1f} us a row", f"CPU x {theirs / ours:.1f}")
        rows.append(Row(f"captures into tables, {what}", *figures, "", None))
    return rows


def kineto_beside_hta(count: int) -> list[Row]:
    """A trace of PyTorch of 100 MB beside HolisticTraceAnalysis, which reads it into a table."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "rank-0.json"
        kineto_events.write(trace, KINETO_BYTES)
        job = [recordings.hta_python(), str(JOBS / "hta_trace.py"), str(trace)]
        found = pairs(
            functools.partial(process, job),
            functools.partial(process, [*_TFPROBE, "op", str(trace)], _OURS),
            count,
        )
    what = "`tfprobe op` beside HTA, a trace of PyTorch of 100 MB"
    peaks = (f"{each.peak_bytes / MIB:,.0f} MiB" for each in (found.first, found.second))
    ours = found.second
    is_small = ours.peak_bytes <= LONG_BYTES
    return [
        _compared(what, found, 1),
        Row("seconds of it", "", f"{ours.wall_s:.1f} s", "", f"{KINETO_S} s",
            ours.wall_s <= KINETO_S),
        Row("memory of it", *peaks, "", "2 GiB", is_small),
    ]  # fmt: skip


BENCHMARKS: dict[str, Callable[[int], list[Row]]] = {
    "profile": profile_report,
    "recorded": recorded_report,
    "add_step": add_step,
    "decode": decoding,
    "xprof": beside_xprof,
    "hlo": hlo_beside_xprof,
    "kineto": kineto_beside_hta,
    "long": long_runs,
}
_TFPROBE = [sys.executable, "-m", "tfprobe"]
_OURS = {"PYTHONPATH": str(ROOT)}


def _engine_report(profile: Path) -> Callable[[], Once]:
    return lambda: process([_tensorflow(), str(JOBS / "engine_report.py"), str(profile), "op"])


def _report_rows(what: str, found: Pair) -> list[Row]:
    first_ms = found.second.first_s * 1000
    return [
        _compared(what, found, REPORT_RATIO),
        Row(f"{what}, first output", f"{found.first.first_s * 1000:.0f} ms", f"{first_ms:.0f} ms",
            "", f"{FIRST_S * 1000:.0f} ms", found.second.first_s <= FIRST_S),
    ]  # fmt: skip


def _compared(what: str, found: Pair, target: float) -> Row:
    theirs, ours = (
        f"{each.wall_s:.2f} s, CPU {each.user_s:.2f} s" for each in (found.first, found.second)
    )
    result = f"x {found.wall_ratio:.1f}, CPU x {found.user_ratio:.1f}"
    return Row(what, theirs, ours, result, f"x {target}", found.wall_ratio >= target)


def _step_row(what: str, theirs: Sequence[float], ours: Sequence[float]) -> Row:
    their_ms = statistics.median(theirs) * 1000
    our_ms = statistics.median(ours) * 1000
    ratio = their_ms / our_ms
    return Row(what, f"{their_ms:.0f} ms", f"{our_ms:.1f} ms", f"x {ratio:.0f}", f"x {STEP_RATIO}",
               ratio >= STEP_RATIO)  # fmt: skip


def _xprof(capture: Path) -> Once:
    """Ask xprof in a folder of its own: it keeps its answers beside the capture."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(capture, folder)
        return process([recordings.xprof_python(), str(JOBS / "xprof_ops.py"), copy])


def _last_line(once: Once) -> list[float]:
    found: list[float] = json.loads(once.output.strip().splitlines()[-1])
    return found


@functools.cache
def _tensorflow() -> str:
    return str(prepare(next(each for each in CELLS if each.name == CELL)))


def _is_in(name: str, wanted: Sequence[str]) -> bool:
    return any(each.lower() in name for each in wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
