"""Count what advice finds in each run: rarely, by a process of its own, and one run at a time.

Advice reads every capture of a run, which takes seconds and as much memory as they have bytes. So
it is asked of a program (`tfprobe advise --json`) that is killed when it takes too long, at the
lowest priority, and for a fixed share of the time; an answer is never waited for.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfprobe.live.metrics.family import Exposed, Family, FamilyKind, Series, label
from tfprobe.live.metrics.subjects import RUN_LABELS, RunSubject
from tfprobe.runs.layout import RunFolder

NS_PER_S = 1_000_000_000
# Of one core, over all runs: less than the agent may take of each of the jobs on this machine.
CORE_RATIO = 0.05
# One run: what advice says changes with its tenth capture, hardly with its hundredth.
SHORTEST_BETWEEN_S = 300.0
# `tfprobe report` takes 20 s for 10 million executions.
LONGEST_CPU_S = 60
LONGEST_WALL_S = 300.0
# Decoded they take some two times as much memory.
MOST_CAPTURE_BYTES = 512 << 20
# How soon a new run is noticed.
_PATIENCE_S = 1.0
_LOWEST_PRIORITY = 19

COUNTS = Family("tfprobe_findings", FamilyKind.GAUGE, "Findings of `tfprobe advise` about the run.",
                (*RUN_LABELS, "rule", "severity"))  # fmt: skip
TIMES = Family("tfprobe_findings_timestamp_seconds", FamilyKind.GAUGE,
               "Unix time at which tfprobe_findings was computed.",
               RUN_LABELS, "seconds")  # fmt: skip
FAILURES = Family("tfprobe_exporter_failed_findings_total", FamilyKind.COUNTER,
                  "Number of times that `tfprobe advise` failed or took too long.")  # fmt: skip
FAMILIES = (COUNTS, TIMES, FAILURES)


@dataclass(slots=True)
class _Known:
    """What is known of a run: `captures` it had at `asked_s`, and what was found in them."""

    since_unix_ns: int
    captures: int = 0
    advised_on: int = 0
    requested_s: float | None = None
    answered_unix_ns: int = 0
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)


class Findings:
    """Keeps the numbers of findings of the runs it was shown last."""

    def __init__(self, command: Sequence[str]) -> None:
        """Take the command that prints a tfprobe.advise/1 document of the run appended to it."""
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._known: dict[str, tuple[RunSubject, _Known]] = {}
        self._failures = 0
        self._started_unix_ns = time.time_ns()
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._loop, name="findings", daemon=True)

    def start(self) -> None:
        """Begin to ask for advice."""
        self._thread.start()

    def stop(self) -> None:
        """End, whatever is under way."""
        self._stopping.set()
        with self._lock:
            if self._child is not None:
                self._child.kill()
        self._thread.join()

    def exposed(self, runs: Sequence[RunSubject]) -> Iterator[Exposed]:
        """Give what is known of these runs, and remember them: others are forgotten."""
        with self._lock:
            self._known = {run.look.run.directory: (run, self._noted(run)) for run in runs}
            known = tuple(self._known.values())
            failures = self._failures
        yield Exposed(COUNTS, tuple(count for run, found in known for count in _counts(run, found)))
        yield Exposed(TIMES, tuple(each for run, found in known for each in _times(run, found)))
        yield Exposed(FAILURES, (Series((), failures, self._started_unix_ns),))

    def _noted(self, run: RunSubject) -> _Known:
        _, found = self._known.get(run.look.run.directory, (run, _Known(run.since_unix_ns)))
        found.captures = sum(process.process.captures for process in run.look.processes)
        return found

    def _loop(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(max(pause_s, _PATIENCE_S)):
            began_s = time.monotonic()
            directory = self._next()
            if directory is not None:
                self._note(directory, self._advice(directory))
            pause_s = (time.monotonic() - began_s) * (1 / CORE_RATIO - 1)

    def _next(self) -> str | None:
        """Return the run with new captures whose findings are oldest, if it is time."""
        now_s = time.monotonic()
        with self._lock:
            due = [
                (found.requested_s or 0.0, directory)
                for directory, (_, found) in self._known.items()
                if found.captures != found.advised_on
                and (found.requested_s is None or now_s - found.requested_s > SHORTEST_BETWEEN_S)
            ]
            if not due:
                return None
            _, directory = min(due)
            found = self._known[directory][1]
            found.requested_s, found.advised_on = now_s, found.captures
            return directory

    def _advice(self, directory: str) -> Mapping[tuple[str, str], int] | None:
        """Return the findings by rule and severity; None where there is no answer."""
        if _capture_bytes(RunFolder(Path(directory))) > MOST_CAPTURE_BYTES:
            return None
        command = [*self._command, directory]
        try:
            with self._lock:
                if self._stopping.is_set():
                    return None
                child = self._child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            _hold_back(child.pid)
            return _parsed(_output(child))
        except OSError:
            return None
        finally:
            with self._lock:
                self._child = None

    def _note(self, directory: str, counts: Mapping[tuple[str, str], int] | None) -> None:
        with self._lock:
            if counts is None:
                self._failures += not self._stopping.is_set()
                return
            if directory in self._known:
                found = self._known[directory][1]
                found.counts, found.answered_unix_ns = counts, time.time_ns()


def _counts(run: RunSubject, found: _Known) -> Iterator[Series]:
    for (rule, severity), count in sorted(found.counts.items()):
        yield Series((*run.labels, rule, severity), count, run.since_unix_ns)


def _times(run: RunSubject, found: _Known) -> Iterator[Series]:
    if found.answered_unix_ns:
        yield Series(run.labels, found.answered_unix_ns / NS_PER_S, run.since_unix_ns)


def _capture_bytes(run: RunFolder) -> int:
    files = (path for process in run.processes() for path in process.capture_files())
    return sum(map(_size, files))


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _hold_back(pid: int) -> None:
    """Run a child at the lowest priority, and end it if this process ends."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, _LOWEST_PRIORITY)
        resource.prlimit(pid, resource.RLIMIT_CPU, (LONGEST_CPU_S, LONGEST_CPU_S))
    except OSError:
        pass  # it has ended already, or nobody may do that here


def _output(child: subprocess.Popen[bytes]) -> bytes:
    with child:
        try:
            return child.communicate(timeout=LONGEST_WALL_S)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            return b""


def _parsed(content: bytes) -> Mapping[tuple[str, str], int] | None:
    try:
        findings = json.loads(content)["findings"]
        return Counter((label(finding["rule"]), label(finding["severity"])) for finding in findings)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
