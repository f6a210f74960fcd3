"""Read run directories for the page of `top`: the snapshots, and what its tabs show."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfprobe.analysis.jobs.fleet import run_rows
from tfprobe.analysis.ops.op_stats import OpTable, op_table
from tfprobe.errors import Missing, NoAnswer
from tfprobe.findings.finding import Finding
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
    from tfprobe.findings.engine import Advice
    from tfprobe.profile.reader.run_reader import RunReader

# A few show what is usual; decoding one takes up to 0.2 s.
OPS_CAPTURES = 8
# A step that is under way has to end before a process can answer.
PATIENCE_S = 10.0
# What fits in a corner of the page.
MOST_NAMED = 5
# What people look for in a log; loops, graphs and code maps are the agent's own business.
_NOTED = ("start", "sample", "declined", "retrace", "fork", "error", "aside", "exit")


class LiveSource:
    """A TopSource that reads run directories. Fleet makes the snapshots."""

    def __init__(self, fleet: Fleet, here: Machine) -> None:
        """Take what makes snapshots, and which machine this is."""
        self._fleet = fleet
        self._here = here
        # The run whose report or findings were shown last: only what is new of it is read.
        self._followed: tuple[str, RunReader] | None = None
        self._following = threading.Lock()

    def look(self) -> TopSnapshot:
        """Return a snapshot of all runs.

        Raises NoAnswer if the directory cannot be read.
        """
        snapshot = self._fleet.look()
        if snapshot.problems and not snapshot.runs:
            raise NoAnswer(" ".join(problem.what for problem in snapshot.problems))
        return TopSnapshot(snapshot.directory, snapshot.at_unix_ns, run_rows(snapshot))

    def ops(self, key: Key, watch: Watch) -> OpTable | Missing:
        """Return the ops of the newest captures of the traced loop with most time of a process."""
        read = 0

        def go_on() -> bool:
            nonlocal read
            read += 1
            watch(read, OPS_CAPTURES)
            return True

        return op_table(newest_captures(_process(key), most=OPS_CAPTURES, go_on=go_on))

    def findings(self, key: Key, watch: Watch) -> Sequence[Finding]:
        """Return the findings about a process and about its run as a whole."""
        profile, found = self._advised(key.directory, watch)
        process = _process(key)
        pids = {recorded.pid for recorded in profile.processes if recorded.folder == process.name}
        return [
            finding
            for finding in found.findings
            if finding.subject.pid in (None, *pids) and finding.subject.host in ("", key.host)
        ]

    def notes(self, key: Key, watch: Watch) -> Sequence[Noted]:  # noqa: ARG002 - a Source's
        """Return what the agent logged about traces, refusals and errors."""
        log = read_events(_process(key).events)
        return [_noted(event) for event in log.events if event.kind in _NOTED]

    def sample(self, key: Key, steps: int) -> Sequence[str]:
        """Request traces of a process, or of all of a run; return sentences about the answers."""
        who = f"{key.host}/{key.folder}" if key.folder else ""
        request = request_traces(RunFolder(Path(key.directory)), self._here, steps=steps, pid=who)
        answers = request.follow(until_met=False, patience_s=PATIENCE_S, tell=lambda _: None)
        return list(_answered(answers, steps))

    def report(self, directory: str, width: int, watch: Watch) -> str:
        """Return what `tfprobe report` prints."""
        from tfprobe.report.documents.run_report import gather_report
        from tfprobe.report.text import report as report_layout

        profile, advice = self._advised(directory, watch)
        return report_layout.render_report(gather_report(profile), advice, width=width, colour=True)

    def _advised(self, directory: str, watch: Watch) -> tuple[Profile, Advice]:
        # Imported here, as all that reports need: the page appears in half the time without it.
        from tfprobe.findings import engine
        from tfprobe.findings.trials import with_measured
        from tfprobe.profile.reader.traced_steps import costliest_loop
        from tfprobe.runs.trials import trials_of

        folder = RunFolder(Path(directory))
        if not folder.is_run():
            raise NoAnswer(f"Run {directory} no longer exists.")
        with self._following:
            profile = self._follow(folder).refresh(watch)
            advice = engine.advise(profile, costliest_loop(folder, profile))
            trials = trials_of(profile.run.command, folder.root.parent)
            return profile, with_measured(advice, trials)

    def _follow(self, folder: RunFolder) -> RunReader:
        from tfprobe.profile.reader.run_reader import RunReader

        directory = str(folder.root)
        if self._followed is None or self._followed[0] != directory:
            self._followed = (directory, RunReader(folder, self._here))
        return self._followed[1]


def _answered(answers: Sequence[ProcessAnswer], steps: int) -> Iterator[str]:
    """Give sentences on who accepted, who has not answered, and why the others declined."""
    what = "the next step" if steps == 1 else f"the next {numbers.count(steps)} steps"
    taken = _pids(answers, RequestAnswer.TAKEN)
    if taken:
        yield f"Tracing {what}: {taken}."
    silent = _pids(answers, RequestAnswer.NONE)
    if silent:
        yield f"No answer yet: {silent}. The request stays in effect until the next step."
    yield from reasons([answer for answer in answers if answer.answer is not RequestAnswer.TAKEN])


def _pids(answers: Sequence[ProcessAnswer], said: RequestAnswer) -> str:
    matching = [answer for answer in answers if answer.answer is said]
    pids = [
        answer.process if isinstance(answer.pid, Missing) else f"pid {answer.pid}"
        for answer in matching
    ]
    more = len(pids) - MOST_NAMED
    named = ", ".join(pids[:MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _process(key: Key) -> ProcessFolder:
    return ProcessFolder(Path(key.directory) / key.host / key.folder)


def _noted(event: Event) -> Noted:
    describe = _DETAILS.get(event.kind)
    details = " · ".join(filter(None, describe(event))) if describe else ""
    return Noted(event.unix_ns, event.kind, details)


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


_DETAILS: dict[str, Callable[[Event], Iterator[str]]] = {
    "aside": _error,
    "declined": _declined,
    "error": _error,
    "sample": _sample,
    "start": _start,
}
