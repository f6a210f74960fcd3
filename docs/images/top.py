"""Take the pictures of `tfprobe top` for the documentation: the page itself, on real jobs.

Usage: python docs/images/top.py PYTHON, an interpreter that has TensorFlow 2 and scikit-learn.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfprobe.analysis.jobs.fleet import ProcessRow
from tfprobe.analysis.jobs.job_totals import is_live
from tfprobe.errors import Missing
from tfprobe.live.breakdown_cache import BreakdownCache
from tfprobe.live.top.app import TopPage
from tfprobe.live.top.run_source import LiveSource
from tfprobe.live.watched_runs import Fleet
from tfprobe.runs.liveness import this_machine

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
FINISHED = ("keras_fit.py", "--steps", "120")
RUNNING = (
    ("two_workers.py", "--steps", "1000000"),
    ("custom_loop.py", "--steps", "1000000"),
    ("mnist_softmax_session.py", "--steps", "10000000"),
    ("keras_fit.py", "--steps", "1000000"),
)
STOPPED = "mnist_softmax_session.py"
SIZE = (118, 20)
PATIENCE_S = 240


def main(python: str) -> None:
    """Start the jobs, look at them, and write the pictures."""
    with tempfile.TemporaryDirectory() as place:
        # Watched from where `tfprobe run` keeps runs, by the name that they have there.
        output = Path(place) / "tfprobe-runs"
        start(python, output, *FINISHED).wait()
        os.chdir(place)
        with jobs(python, output):
            asyncio.run(take(Path(output.name)))


@contextmanager
def jobs(python: str, output: Path) -> Iterator[None]:
    """Run the jobs meanwhile."""
    running = [start(python, output, *words) for words in RUNNING]
    try:
        yield
    finally:
        for job in running:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def start(python: str, output: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a job, recorded, in a group of its own."""
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(output), "--", "python", *words],
        cwd=EXAMPLES,
        env={
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(HERE.parents[1]),
            "PYTHONWARNINGS": "ignore",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def take(output: Path) -> None:
    """Wait until the page has something of everything, and write it as it is then."""
    here = this_machine()
    fleet = Fleet(output, here, latest=BreakdownCache(core_ratio=0.5).time_use)
    page = TopPage(LiveSource(fleet, here), every_s=1)
    async with page.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: all(map(is_full, rows(page))) and len(rows(page)) > len(RUNNING))
        stop(page)
        await until(pilot, lambda: any(row.state == "stopped" for row in rows(page)))
        await pilot.press("home")
        await pilot.pause(1)
        write(page, "top")
        await pilot.press("enter", "2")
        await until(pilot, lambda: "traced step" in shown(page))
        write(page, "top-process")


async def until(pilot, holds) -> None:
    """Let the page go on until something holds."""
    ends_s = time.monotonic() + PATIENCE_S
    while not holds():
        await pilot.pause(0.5)
        if time.monotonic() > ends_s:
            raise SystemExit("the jobs do not come to where a picture can be taken")


def rows(page: TopPage) -> list[ProcessRow]:
    """The processes that live."""
    runs = () if page.seen is None else page.seen.runs
    return [row for run in runs for row in run.processes if is_live(row.state)]


def is_full(row: ProcessRow) -> bool:
    """Say whether a line of it has something to show in each column."""
    told = (row.cpus_used, row.trend_ns, row.steps_per_s)
    sampled = row.rank is not None or not isinstance(row.shares, Missing)
    return sampled and row.steps > 100 and not any(isinstance(each, Missing) for each in told)


def stop(page: TopPage) -> None:
    """Stop one job, as a debugger or a scheduler does."""
    runs = () if page.seen is None else page.seen.runs
    for run in runs:
        if not isinstance(run.command, Missing) and STOPPED in run.command:
            os.kill(run.processes[0].pid, signal.SIGSTOP)


def shown(page: TopPage) -> str:
    """What one sees."""
    return "\n".join(strip.text for strip in page.screen._compositor.render_strips())


def write(page: TopPage, name: str) -> None:
    """Write a picture, without the fonts that it would have fetched from elsewhere."""
    picture = re.sub(
        r"@font-face \{.*?\}", "", page.export_screenshot(title="tfprobe top"), flags=re.S
    )
    (HERE / f"{name}.svg").write_text(picture.replace("Fira Code, monospace", "monospace"))


if __name__ == "__main__":
    main(sys.argv[1])
