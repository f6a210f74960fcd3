"""Make a snapshot of all runs for each scrape, but not too often. Serves nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tfprobe
from tfprobe.errors import Missing, TfprobeError, UnreadableInput
from tfprobe.live.breakdown_cache import BreakdownCache
from tfprobe.live.metrics.family import Exposed, Family, FamilyKind, MonotonicCounter, Series, Value
from tfprobe.live.metrics.findings import FAMILIES as FINDINGS
from tfprobe.live.metrics.findings import Findings
from tfprobe.live.metrics.subjects import Limits, RunSubject, Subjects, process_labels, subjects
from tfprobe.live.metrics.table import DEVICES, LOOPS, PROCESSES, RUNS, MetricRow, S
from tfprobe.live.watched_runs import Fleet
from tfprobe.profile.snapshots import FleetSnapshot, TimeUse
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.liveness import LIVE, STATES, Machine

NS_PER_S = 1_000_000_000
# Two servers that scrape the same endpoint, or a person who reloads a page, share a snapshot.
SHORTEST_BETWEEN_LOOKS_S = 1.0
# A snapshot waits for a file system that hangs; Prometheus allows 10 s for a scrape by default.
LONGEST_WAIT_S = 8.0


class ExporterBusy(TfprobeError):
    """A snapshot takes longer than a client waits."""


@dataclass(frozen=True, slots=True)
class MetricsAnswer:
    """What was exposed at one moment. `number` counts the snapshots."""

    number: int
    at_unix_ns: int
    families: tuple[Exposed, ...]


def _family(name: str, kind: FamilyKind, unit: str, text: str, *labels: str) -> Family:
    return Family(name, kind, text, labels, unit)


BUILD = _family(
    "tfprobe_build_info", FamilyKind.INFO, "", "The version of this exporter.", "version"
)
DIRECTORY_UP = _family("tfprobe_directory_up", FamilyKind.GAUGE, "",
                       "1 if the directory of runs exists and was read, else 0.")  # fmt: skip
RUN_COUNT = _family("tfprobe_runs", FamilyKind.GAUGE, "",
                    "Runs in the directory, including those without series.", "state")  # fmt: skip
LEFT_OUT = _family("tfprobe_left_out_processes", FamilyKind.GAUGE, "",
                   "Processes without series, by reason.", "reason")  # fmt: skip
LOOKS = _family("tfprobe_exporter_looks_total", FamilyKind.COUNTER, "", "Snapshots of the runs.")
FAILED = _family("tfprobe_exporter_failed_looks_total", FamilyKind.COUNTER, "",
                 "Snapshots that failed; their answers contain no runs.")  # fmt: skip
LOOK_SECONDS = _family("tfprobe_exporter_look_seconds_total", FamilyKind.COUNTER, "seconds",
                       "Time that snapshots took.")  # fmt: skip
LAST_LOOK_SECONDS = _family("tfprobe_exporter_last_look_seconds", FamilyKind.GAUGE, "seconds",
                            "Time that the latest snapshot took.")  # fmt: skip
DROPPED = _family("tfprobe_exporter_dropped_answers_total", FamilyKind.COUNTER, "",
                  "Answers that an OpenTelemetry collector did not accept.")  # fmt: skip
SELF = (
    BUILD,
    DIRECTORY_UP,
    RUN_COUNT,
    LEFT_OUT,
    LOOKS,
    FAILED,
    LOOK_SECONDS,
    LAST_LOOK_SECONDS,
    DROPPED,
)
# All there are, in the order in which they are exposed.
FAMILIES: tuple[Family, ...] = (
    *SELF,
    *(row.family for table in (RUNS, PROCESSES, LOOPS, DEVICES) for row in table),
    *FINDINGS,
)


class Exporter:
    """Answers with all metrics as of now; makes one snapshot at a time."""

    def __init__(
        self,
        look: Callable[[], FleetSnapshot],
        *,
        limits: Limits,
        findings: Findings | None = None,
        complain: Callable[[str], None] = lambda _text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what makes a snapshot; `complain` gets each new failure once."""
        self._look = look
        self._limits = limits
        self._findings = findings
        self._complain = complain
        self._clock = clock
        self._lock = threading.Lock()
        self._counters = MonotonicCounter()
        self._alive_ns: dict[tuple[str, ...], int] = {}
        self._started_unix_ns = time.time_ns()
        self._answer: MetricsAnswer | None = None
        self._answered_s = 0.0
        self._looks, self._failed, self._dropped = 0, 0, 0
        self._spent_s, self._last_s = 0.0, 0.0
        self._complaint = ""

    def answer(self) -> MetricsAnswer:
        """Return the metrics of now, or of a second ago.

        Raises Busy if another snapshot takes too long.
        """
        if not self._lock.acquire(timeout=LONGEST_WAIT_S):
            raise ExporterBusy(
                "The files of the runs have not answered for some time.", hint="Ask later."
            )
        try:
            is_young = self._clock() - self._answered_s < SHORTEST_BETWEEN_LOOKS_S
            if self._answer is None or not is_young:
                self._answer = self._new_answer()
                self._answered_s = self._clock()
            return self._answer
        finally:
            self._lock.release()

    def note_drop(self) -> None:
        """Count an answer that was dropped."""
        self._dropped += 1

    def _new_answer(self) -> MetricsAnswer:
        began_s = self._clock()
        found = self._subjects()
        self._looks += 1
        self._last_s = self._clock() - began_s
        self._spent_s += self._last_s
        families = self._counters.raise_to_last(
            [*self._about_itself(found), *self._about_runs(found)]
        )
        return MetricsAnswer(self._looks, time.time_ns(), families)

    def _subjects(self) -> Subjects | Missing:
        """Return what a snapshot exposes; no failure there may end the endpoint."""
        try:
            look = self._look()
            self._note_alive(look)
            return subjects(look, self._limits, self._alive_ns)
        except TfprobeError as problem:
            return self._failure(str(problem))
        except Exception as problem:
            return self._failure(f"A look at the runs failed: {type(problem).__name__}: {problem}")

    def _failure(self, text: str) -> Missing:
        self._failed += 1
        if text != self._complaint:
            self._complaint = text
            self._complain(text)
        return Missing(text)

    def _note_alive(self, look: FleetSnapshot) -> None:
        """Remember when each process was last alive, and forget those that are gone."""
        everyone = {
            process_labels(run, process): process.process.state
            for run in look.runs
            for process in run.processes
        }
        alive = {each: look.at_unix_ns for each, state in everyone.items() if state in LIVE}
        self._alive_ns = {
            each: at_ns for each, at_ns in {**self._alive_ns, **alive}.items() if each in everyone
        }

    def _about_itself(self, found: Subjects | Missing) -> Iterator[Exposed]:
        is_lost = isinstance(found, Missing)
        yield self._single(BUILD, 1, tfprobe.__version__)
        yield self._single(DIRECTORY_UP, int(not is_lost))
        if not isinstance(found, Missing):
            counts = [((state,), found.states.get(state, 0)) for state in STATES]
            yield self._several(RUN_COUNT, counts)
            yield self._several(LEFT_OUT, (((why,), n) for why, n in found.left_out.items()))
        yield self._single(LOOKS, self._looks)
        yield self._single(FAILED, self._failed)
        yield self._single(LOOK_SECONDS, self._spent_s)
        yield self._single(LAST_LOOK_SECONDS, self._last_s)
        yield self._single(DROPPED, self._dropped)

    def _about_runs(self, found: Subjects | Missing) -> Iterator[Exposed]:
        runs: tuple[RunSubject, ...] = () if isinstance(found, Missing) else found.runs
        processes = [process for run in runs for process in run.processes]
        yield from _exposed(RUNS, runs)
        yield from _exposed(PROCESSES, processes)
        yield from _exposed(LOOPS, [loop for process in processes for loop in process.loops])
        yield from _exposed(DEVICES, [device for run in runs for device in run.devices])
        if self._findings is not None:
            yield from self._findings.exposed(runs)

    def _single(self, family: Family, value: Value, *labels: str) -> Exposed:
        return self._several(family, ((labels, value),))

    def _several(self, family: Family, points: Iterable[tuple[tuple[str, ...], Value]]) -> Exposed:
        since_ns = self._started_unix_ns
        return Exposed(family, tuple(Series(labels, value, since_ns) for labels, value in points))


def _exposed(rows: Iterable[MetricRow[S]], found: Iterable[S]) -> Iterator[Exposed]:
    everyone = tuple(found)
    for row in rows:
        yield Exposed(row.family, tuple(row.series(everyone)))


_SILENT = Missing("it has written nothing lately")


def once(directory: Path, here: Machine, limits: Limits) -> Exporter:
    """Return an exporter for one answer, which reads all captures first."""
    latest = BreakdownCache(core_ratio=1.0)

    def time_use(folder: ProcessFolder) -> TimeUse:
        is_young = is_recent(folder, within_s=limits.finished_for_s)
        return latest.time_use(folder) if is_young else TimeUse(_SILENT, _SILENT)

    fleet = Fleet(directory, here, latest=time_use)
    return Exporter(_looks(fleet, directory), limits=limits)


@contextmanager
def watched(
    directory: Path,
    here: Machine,
    limits: Limits,
    *,
    advice: Sequence[str] | None,
    complain: Callable[[str], None],
) -> Iterator[Exporter]:
    """Give an exporter for many answers, and end its threads.

    `advice` is the command that finds something in a run, None to ask for no findings.
    """
    keeper = TimeUseCache(
        BreakdownCache().time_use, partial(is_recent, within_s=limits.finished_for_s)
    )
    findings = None if advice is None else Findings(advice)
    fleet = Fleet(directory, here, latest=keeper.time_use)
    look = _looks(fleet, directory)
    exporter = Exporter(look, limits=limits, findings=findings, complain=complain)
    workers = [each for each in (keeper, findings) if each is not None]
    for worker in workers:
        worker.start()
    try:
        yield exporter
    finally:
        for worker in workers:
            worker.stop()


def _looks(fleet: Fleet, directory: Path) -> Callable[[], FleetSnapshot]:
    """Return what makes a snapshot, and fails if the directory is missing or cannot be read."""

    def look() -> FleetSnapshot:
        snapshot = fleet.look()
        if not os.path.isdir(directory):
            raise UnreadableInput(f"{directory} no longer exists.")
        if snapshot.problems:
            raise UnreadableInput(
                f"{snapshot.directory} cannot be read: {snapshot.problems[0].what}."
            )
        return snapshot

    return look


# Each round costs a stat for each process; how much is decoded in one is for `read` to bound.
_BETWEEN_ROUNDS_S = 1.0
# A process that was not requested for so many rounds is dropped: scrapes are rare.
_ROUNDS_REMEMBERED = 600
_UNREAD = Missing("its captures have not been read yet")
_NOT_YET = TimeUse(_UNREAD, _UNREAD)

Read = Callable[[ProcessFolder], TimeUse]


class TimeUseCache:
    """Answers with what its own thread has read about the processes that were requested."""

    def __init__(self, read: Read, is_worth_it: Callable[[ProcessFolder], bool]) -> None:
        """Take what reads the time use of a process, and what says whether to, for the thread."""
        self._read = read
        self._is_worth_it = is_worth_it
        self._lock = threading.Lock()
        self._known: dict[Path, TimeUse] = {}
        self._requested: dict[Path, int] = {}
        self._round = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="shares", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End, at the next process."""
        self._stopping.set()
        self._thread.join()

    def time_use(self, folder: ProcessFolder) -> TimeUse:
        """Return what is known of a process by now."""
        with self._lock:
            self._requested[folder.root] = self._round
            return self._known.get(folder.root, _NOT_YET)

    def _loop(self) -> None:
        while not self._stopping.wait(_BETWEEN_ROUNDS_S):
            for folder in map(ProcessFolder, self._wanted()):
                if self._stopping.is_set():
                    return
                if self._is_worth_it(folder):
                    self._known[folder.root] = self._answer(folder)

    def _answer(self, folder: ProcessFolder) -> TimeUse:
        try:
            return self._read(folder)
        except Exception as problem:
            # An unexpected capture must not end the thread, nor the metrics of the others.
            why = Missing(f"its captures cannot be read: {type(problem).__name__}: {problem}")
            return TimeUse(why, why)

    def _wanted(self) -> tuple[Path, ...]:
        with self._lock:
            self._round += 1
            oldest = self._round - _ROUNDS_REMEMBERED
            self._requested = {root: at for root, at in self._requested.items() if at >= oldest}
            self._known = {
                root: time_use for root, time_use in self._known.items() if root in self._requested
            }
            return tuple(self._requested)


def is_recent(folder: ProcessFolder, *, within_s: float) -> bool:
    """Say whether a process has written something lately: a directory may hold runs of months.

    A process that steps writes resource samples, one that is traced captures, each its manifest.
    """
    signs = (folder.resource_samples, folder.captures, folder.manifest)
    return time.time() - max(map(_changed_s, signs)) <= within_s


def _changed_s(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
