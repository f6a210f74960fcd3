"""What the live page asks, answered from run directories: looks, captures, orders, reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfprobe.analysis.jobs.fleet import run_rows
from tfprobe.analysis.ops.op_totals import OpTable, by_type
from tfprobe.errors import Missing, NoAnswer
from tfprobe.findings.finding import Finding
from tfprobe.live.fleet import Fleet
from tfprobe.live.orders import order
from tfprobe.live.top.source import Key, Noted, Seen, Watch
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.live_process import newest_captures
from tfprobe.profile.snapshots import Answer, ProcessAnswer
from tfprobe.report.format import numbers
from tfprobe.report.text.orders import reasons
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.process_folder.events import Event, read_events

if TYPE_CHECKING:
    from tfprobe.findings.engine import Advice
    from tfprobe.profile.reader.run_reader import Following

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
        self._followed: tuple[str, Following] | None = None
        self._following = threading.Lock()

    def look(self) -> Seen:
        """Return how all runs stand now.

        Raises NoAnswer where the directory is closed to us.
        """
        look = self._fleet.look()
        if look.problems and not look.runs:
            raise NoAnswer(" ".join(each.what for each in look.problems))
        return Seen(look.directory, look.at_unix_ns, run_rows(look))

    def ops(self, key: Key, watch: Watch) -> OpTable | Missing:
        """Return the ops of the newest captures of a process's sampled work with most time."""
        read = 0

        def go_on() -> bool:
            nonlocal read
            read += 1
            watch(read, OPS_CAPTURES)
            return True

        return by_type(newest_captures(_process(key), most=OPS_CAPTURES, go_on=go_on))

    def findings(self, key: Key, watch: Watch) -> Sequence[Finding]:
        """Return what could be faster in a process, or in its run as a whole."""
        profile, found = self._advised(key.directory, watch)
        process = _process(key)
        pids = {each.pid for each in profile.processes if each.folder == process.name}
        return [
            each
            for each in found.findings
            if each.subject.pid in (None, *pids) and each.subject.host in ("", key.host)
        ]

    def notes(self, key: Key, watch: Watch) -> Sequence[Noted]:  # noqa: ARG002 - a Source's
        """Return what the agent noted of samples, refusals and troubles."""
        log = read_events(_process(key).events)
        return [_noted(each) for each in log.events if each.kind in _NOTED]

    def sample(self, key: Key, steps: int) -> Sequence[str]:
        """Order the next steps of a process, or of all of a run; return who answered what."""
        who = f"{key.host}/{key.folder}" if key.folder else ""
        given = order(RunFolder(Path(key.directory)), self._here, steps=steps, pid=who)
        answers = given.follow(until_met=False, patience_s=PATIENCE_S, tell=lambda _: None)
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
            raise NoAnswer(f"{directory} is no run any more.")
        with self._following:
            profile = self._follow(folder).refresh(watch)
            return profile, engine.advise(profile, dearest(folder, profile))

    def _follow(self, folder: RunFolder) -> Following:
        from tfprobe.profile.reader.run_reader import Following

        directory = str(folder.root)
        if self._followed is None or self._followed[0] != directory:
            self._followed = (directory, Following(folder, self._here))
        return self._followed[1]


def _answered(answers: Sequence[ProcessAnswer], steps: int) -> Iterator[str]:
    """Tell who takes the order, who has not answered yet, and why the others do not."""
    what = "the next step" if steps == 1 else f"the next {numbers.count(steps)} steps"
    taken = _pids(answers, Answer.TAKEN)
    if taken:
        yield f"Recording {what}: {taken}."
    silent = _pids(answers, Answer.NONE)
    if silent:
        yield f"No answer yet: {silent}. The order stands until the next step."
    yield from reasons([each for each in answers if each.answer is not Answer.TAKEN])


def _pids(answers: Sequence[ProcessAnswer], said: Answer) -> str:
    found = [each for each in answers if each.answer is said]
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
