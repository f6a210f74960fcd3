"""`tfprobe top`: watch runs and their processes, now and once a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.analysis.jobs.fleet import run_rows
from tfprobe.analysis.ops.op_stats import OpTable, op_table
from tfprobe.cli import common
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.findings.finding import Finding
from tfprobe.launch import environ
from tfprobe.live.top.source import Key, Noted, TopSnapshot, Watch
from tfprobe.live.trace_requests import request_traces
from tfprobe.live.watched_runs import Fleet
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.live_process import newest_captures
from tfprobe.profile.snapshots import ProcessAnswer, RequestAnswer
from tfprobe.report.format import numbers
from tfprobe.report.text.runs import reasons
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.process_folder.events import Event, read_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfprobe.findings.engine import Advice
    from tfprobe.profile.reader.run_reader import RunReader
    from tfprobe.profile.snapshots import FleetSnapshot, TimeUse
    from tfprobe.runs.layout import ProcessFolder


# What reading captures may take of one look.
CAPTURES_S = 2.0
# Faster than a person reads is only work for the machine that the jobs run on.
_LEAST_EVERY_S = 0.2
# A day: whoever looks as seldom wants `--once`.
_MOST_EVERY_S = 86_400
# What a terminal calls itself that can neither move its cursor nor show colour.
_DUMB = ("", "dumb")


@click.command("top")
@click.argument("place", required=False, metavar="[RUN|DIR]")
@click.option(
    "--every",
    "every_s",
    type=float,
    default=1.0,
    metavar="S",
    help="Seconds between updates.  [default: 1]",
)
@click.option(
    "--once", is_flag=True, help="Print one table and exit; the default without a terminal."
)
@common.output_option
@common.json_option
def command(
    place: str | None, output: str | None, every_s: float, once: bool, as_json: bool
) -> int:
    """Watch runs and their processes: how fast they are, and what they wait for.

    RUN is a directory, a run id, or `latest`. For DIR, by default the directory of all runs, all of
    its runs are shown. Press ? for help. The exit status is 1 if there is no run.
    """
    from tfprobe.live.breakdown_cache import BreakdownCache
    from tfprobe.live.watched_runs import Fleet
    from tfprobe.runs.liveness import this_machine

    # Written so that it holds for no NaN.
    if not _LEAST_EVERY_S <= every_s <= _MOST_EVERY_S:
        hint = f"Use {_LEAST_EVERY_S} to {_MOST_EVERY_S} seconds."
        raise UsageError(f"--every {every_s:g} is out of range.", hint=hint)
    directory = _directory(place, output)
    here = this_machine()
    if as_json or once or not _is_live_terminal():
        look = Fleet(
            directory, here, latest=_for_a_while(BreakdownCache(core_ratio=1).time_use)
        ).look()
        return _show_json(look, directory) if as_json else _show_once(look, directory)
    from tfprobe.live.top.app import run

    return run(
        LiveSource(Fleet(directory, here, latest=BreakdownCache().time_use), here), every_s=every_s
    )


def _for_a_while(
    time_use: Callable[[ProcessFolder], TimeUse],
) -> Callable[[ProcessFolder], TimeUse]:
    """Have captures read until that has taken long enough; of one look nobody waits for more."""
    from tfprobe.profile.snapshots import TimeUse

    until_s = time.monotonic() + CAPTURES_S

    def until_then(folder: ProcessFolder) -> TimeUse:
        if time.monotonic() < until_s:
            return time_use(folder)
        why = Missing("its captures were not read: those of other processes took too long")
        return TimeUse(why, why)

    return until_then


def _directory(place: str | None, output: str | None) -> Path:
    """Return what to watch: a directory of runs, or one run."""
    if place is None:
        return common.output_directory(output)
    if Path(place).is_dir():
        return Path(place)
    return common.chosen_run(place, output).root


def _is_live_terminal() -> bool:
    # textual draws on stderr, so that is looked at, too.
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    return environ.inherited().get("TERM", "") not in _DUMB


def _show_json(look: FleetSnapshot, directory: Path) -> int:
    from tfprobe.report.documents.jobs_document import document
    from tfprobe.report.documents.published import published

    _check(look, directory)
    common.show_json(published(document(look)))
    return 0


def _show_once(look: FleetSnapshot, directory: Path) -> int:
    from tfprobe.analysis.jobs.fleet import run_rows
    from tfprobe.live.top.snapshot_table import lay_out
    from tfprobe.live.top.source import TopSnapshot

    _check(look, directory)
    seen = TopSnapshot(look.directory, look.at_unix_ns, run_rows(look))
    common.show_page(lay_out(seen, width=common.page_width(), colour=common.page_colour()))
    return 0


def _check(look: FleetSnapshot, directory: Path) -> None:
    """Raise NoAnswer where there is no run."""
    if not look.runs:
        why = " ".join(problem.what for problem in look.problems)
        hint = why or "Record one with `tfprobe run -- COMMAND`."
        raise NoAnswer(f"There is no run in {directory}.", hint=hint)


# A few show what is usual; decoding one takes up to 0.2 s.
OPS_CAPTURES = 8
# A step that is under way has to end before a process can answer.
PATIENCE_S = 10.0
# What fits in a corner of the page.
MOST_NAMED = 5
# What people look for in a log; works, graphs and code maps are the agent's own business.
_NOTED = ("start", "sample", "declined", "retrace", "fork", "error", "aside", "exit")


class LiveSource:
    """Reads run directories for the page. Looks are kept apart from all else: see Fleet."""

    def __init__(self, fleet: Fleet, here: Machine) -> None:
        """Take what looks, and which machine this is."""
        self._fleet = fleet
        self._here = here
        # The run whose report or findings were asked for last: of it only what is new is read.
        self._followed: tuple[str, RunReader] | None = None
        self._following = threading.Lock()

    def look(self) -> TopSnapshot:
        """Return how all runs stand now.

        Raises NoAnswer where the directory is closed to us.
        """
        look = self._fleet.look()
        if look.problems and not look.runs:
            raise NoAnswer(" ".join(problem.what for problem in look.problems))
        return TopSnapshot(look.directory, look.at_unix_ns, run_rows(look))

    def ops(self, key: Key, watch: Watch) -> OpTable | Missing:
        """Return the ops of the newest captures of a process's sampled work with most time."""
        read = 0

        def go_on() -> bool:
            nonlocal read
            read += 1
            watch(read, OPS_CAPTURES)
            return True

        return op_table(newest_captures(_process(key), most=OPS_CAPTURES, go_on=go_on))

    def findings(self, key: Key, watch: Watch) -> Sequence[Finding]:
        """Return what could be faster in a process, or in its run as a whole."""
        profile, found = self._advised(key.directory, watch)
        process = _process(key)
        pids = {each.pid for each in profile.processes if each.folder == process.name}
        return [
            finding
            for finding in found.findings
            if finding.subject.pid in (None, *pids) and finding.subject.host in ("", key.host)
        ]

    def notes(self, key: Key, watch: Watch) -> Sequence[Noted]:  # noqa: ARG002 - a Source's
        """Return what the agent noted of samples, refusals and troubles."""
        log = read_events(_process(key).events)
        return [_noted(event) for event in log.events if event.kind in _NOTED]

    def sample(self, key: Key, steps: int) -> Sequence[str]:
        """Order the next steps of a process, or of all of a run; return who answered what."""
        who = f"{key.host}/{key.folder}" if key.folder else ""
        request = request_traces(RunFolder(Path(key.directory)), self._here, steps=steps, pid=who)
        answers = request.follow(until_met=False, patience_s=PATIENCE_S, tell=lambda _: None)
        return list(_answered(answers, steps))

    def report(self, directory: str, width: int, watch: Watch) -> str:
        """Return what `tfprobe report` prints."""
        from tfprobe.report.documents.run_report import gather
        from tfprobe.report.text import report as report_layout

        profile, advice = self._advised(directory, watch)
        return report_layout.lay_out(gather(profile), advice, width=width, colour=True)

    def _advised(self, directory: str, watch: Watch) -> tuple[Profile, Advice]:
        # Imported here, as what a report needs is: the page is there in half the time without.
        from tfprobe.findings import engine
        from tfprobe.profile.reader.traced_steps import dearest

        folder = RunFolder(Path(directory))
        if not folder.is_run():
            raise NoAnswer(f"Run {directory} no longer exists.")
        with self._following:
            profile = self._follow(folder).refresh(watch)
            return profile, engine.advise(profile, dearest(folder, profile))

    def _follow(self, folder: RunFolder) -> RunReader:
        from tfprobe.profile.reader.run_reader import RunReader

        directory = str(folder.root)
        if self._followed is None or self._followed[0] != directory:
            self._followed = (directory, RunReader(folder, self._here))
        return self._followed[1]


def _answered(answers: Sequence[ProcessAnswer], steps: int) -> Iterator[str]:
    """Tell who takes the order, who has not answered yet, and why the others do not."""
    what = "the next step" if steps == 1 else f"the next {numbers.count(steps)} steps"
    taken = _pids(answers, RequestAnswer.TAKEN)
    if taken:
        yield f"Tracing {what}: {taken}."
    silent = _pids(answers, RequestAnswer.NONE)
    if silent:
        yield f"No answer yet: {silent}. The request stays in effect until the next step."
    yield from reasons([answer for answer in answers if answer.answer is not RequestAnswer.TAKEN])


def _pids(answers: Sequence[ProcessAnswer], said: RequestAnswer) -> str:
    found = [answer for answer in answers if answer.answer is said]
    pids = [each.process if isinstance(each.pid, Missing) else f"pid {each.pid}" for each in found]
    more = len(pids) - MOST_NAMED
    named = ", ".join(pids[:MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _process(key: Key) -> ProcessFolder:
    return ProcessFolder(Path(key.directory) / key.host / key.folder)


def _noted(event: Event) -> Noted:
    tell = _TELLING.get(event.kind)
    told = " · ".join(part for part in tell(event) if part) if tell else ""
    return Noted(event.unix_ns, event.kind, told)


def _sample(event: Event) -> Iterator[str]:
    yield f"step {event.integer('step')}"
    yield event.text("why") or ""
    start_ns, end_ns = event.integer("start_ns"), event.integer("end_ns")
    if start_ns is not None and end_ns is not None:
        yield numbers.duration(max(end_ns - start_ns, 0))
    size_bytes = event.integer("bytes")
    yield "" if size_bytes is None else numbers.size(size_bytes)
    yield event.text("capture") or ""


def _declined(event: Event) -> Iterator[str]:
    yield f"step {event.integer('step')}"
    yield event.text("why") or ""
    times = event.integer("times") or 1
    yield f"{times} times" if times > 1 else ""


def _error(event: Event) -> Iterator[str]:
    yield event.text("where") or ""
    yield event.text("what") or event.text("why") or ""


def _start(event: Event) -> Iterator[str]:
    yield f"TensorFlow {event.text('tensorflow') or '?'}"


_TELLING: dict[str, Callable[[Event], Iterator[str]]] = {
    "aside": _error,
    "declined": _declined,
    "error": _error,
    "sample": _sample,
    "start": _start,
}
