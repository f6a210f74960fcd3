"""One process that is asked for samples, and what it answers.

Files are all there is between us and the job: it may be in another container, or of another user.
Its events say what became of an order; its control words tell as much where events find no room.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.live.watched_process import HostClocks, now_mono_ns
from tfprobe.profile.profile import Loop
from tfprobe.profile.programs import Program
from tfprobe.profile.snapshots import Captured, ProcessAnswer, RequestAnswer
from tfprobe.runs import safe_files
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.liveness import (
    LIVE,
    STOPPED,
    UNKNOWN,
    Machine,
    ProcessEntry,
    ended_process,
    is_gone,
)
from tfprobe.runs.manifests import ProcessManifest, read_process
from tfprobe.runs.process_folder.jsonl import Json, integer, object_of, text
from tfprobe.runs.process_folder.steps import StepsFile, read_steps
from tfprobe.runs.process_folder.steps_layout import AgentState, Header, read_header
from tfprobe.runs.trace_requests import ANY_LOOP, Request, request_samples, request_status

# Whoever only declines for so long is not going to do otherwise while somebody waits.
DECLINING_S = 5.0
NANOSECONDS = 1_000_000_000
_NO_AGENT = (
    "it was recorded through a profiler service and has no agent; "
    "use `tfprobe capture` to record more of it"
)
_NOTHING = Missing("nothing prevents it from recording")

Judgement = tuple[RequestAnswer, str | Missing]


class ProcessRequest:
    """One process of a run, asked once for its next steps."""

    def __init__(self, folder: ProcessFolder, here: Machine) -> None:
        """Read who it is; nothing is asked yet."""
        self.folder = folder
        # What it runs, known once all of its run have been looked at.
        self.program = Program("", "", 0)
        self._here = here
        self._manifest = _manifest(folder)
        self._steps: StepsFile | Missing = Missing("its steps.bin has not been read")
        self._header: Header | None = None
        self._refusal: tuple[RequestAnswer, str] | None = None
        self._samples, self._loop = 0, ANY_LOOP
        self._request = 0
        self._hearing = EventTail(folder.events)
        self._declining_since_s: float | None = None
        self._sampling_ended = False

    @property
    def pid(self) -> int | Missing:
        """Return its pid, as far as its files tell."""
        if self._is_of_a_service:
            return Missing("its service did not report it")
        if self._manifest is not None:
            return self._manifest.pid
        return Missing("process.json cannot be read") if self._header is None else self._header.pid

    @property
    def state(self) -> str:
        """Return its state by its files and /proc, as of the latest look."""
        return ended_process(self.folder, self._header, self._manifest, self._here)

    @property
    def is_there(self) -> bool:
        """Say whether it may still make steps: it runs or is stopped, or nobody here can tell."""
        is_over = self._manifest is not None and is_gone(self._manifest, self._here)
        return self.state in LIVE or (self.state == UNKNOWN and not is_over)

    @property
    def entry(self) -> ProcessEntry:
        """Return what its files tell of it, for naming it among the others."""
        lost = Missing("it has not been read")
        return ProcessEntry(
            self.folder, self._manifest or lost, self._header or lost, 0, self.state
        )

    def look(self, loop: str) -> bool:
        """Return whether it can be asked for steps of `work` (any, where empty)."""
        if self._is_of_a_service:
            self._refusal = RequestAnswer.NOT_ASKED, _NO_AGENT
            return False
        try:
            self._steps = read_steps(self.folder.steps)
            self._header = self._steps.header
            self._refusal = self._unable(self._steps.header)
            if self._refusal is None and loop:
                self._loop = _index_of(self._steps.loops, loop)
        except UnreadableInput as problem:
            self._refusal = RequestAnswer.NOT_ASKED, self._briefly(problem)
        return self._refusal is None

    def ask(self, samples: int) -> None:
        """Write the order into its control words."""
        self._samples = samples
        try:
            self._request = request_samples(self.folder.steps, samples=samples, loop=self._loop)
        except UnreadableInput as problem:
            self._refusal = RequestAnswer.NOT_ASKED, self._briefly(problem)

    def answer(self) -> ProcessAnswer:
        """Read where the order stands now."""
        heard = self._hearing.listen(self._request) if self._request else RequestEvents()
        answer, why = self._refusal or self._judge(heard)
        return ProcessAnswer(
            host=self.folder.host,
            pid=self.pid,
            process=self.folder.name,
            state=self.state,
            answer=answer,
            why=why,
            samples=self._samples,
            captures=heard.captures,
            request=self._request or Missing("it got no request"),
            executed=self._executed(),
            program=self.program.title or self.program.name,
        )

    def is_settled(self, answer: ProcessAnswer, *, until_met: bool) -> bool:
        """Say whether waiting would bring no more than this answer."""
        if answer.is_met or not self.is_there or self.state == STOPPED:
            return True
        if (
            until_met
            and answer.answer in (RequestAnswer.TAKEN, RequestAnswer.DECLINED)
            and not self._refused
        ):
            return self._sampling_ended or self._only_declines()
        return answer.answer is not RequestAnswer.NONE

    def _briefly(self, problem: UnreadableInput) -> str:
        """Say what is wrong without the folder, so that the same reason of many is told once."""
        return str(problem).replace(f"{self.folder.root}/", "").rstrip(".")

    @property
    def _is_of_a_service(self) -> bool:
        return self._manifest is not None and self._manifest.service is not None

    @property
    def _refused(self) -> bool:
        """Say whether the order as a whole was declined, and not only steps of it."""
        return self._refusal is not None or self._hearing.heard.refusal is not None

    def _unable(self, header: Header) -> tuple[RequestAnswer, str] | None:
        if not self.is_there:
            return RequestAnswer.ENDED, "had ended before"
        if header.state is AgentState.STEPPED_ASIDE:
            return (
                RequestAnswer.NOT_ASKED,
                "the agent there disabled itself after an internal error",
            )
        return None

    def _judge(self, heard: RequestEvents) -> Judgement:
        if len(heard.captures) >= self._samples:
            return RequestAnswer.TAKEN, _NOTHING
        if heard.superseded_by is not None:
            return RequestAnswer.SUPERSEDED, f"request {heard.superseded_by} replaced it"
        if heard.taken not in (None, (self._samples, self._loop)):
            return RequestAnswer.SUPERSEDED, "another request was made at the same time"
        if heard.refusal is not None:
            return RequestAnswer.DECLINED, heard.refusal
        try:
            self._header = read_header(self.folder.steps)
            status = request_status(self.folder.steps)
        except UnreadableInput as problem:
            self._refusal = RequestAnswer.ENDED, f"its files are gone: {self._briefly(problem)}"
            return self._refusal
        self._sampling_ended = status.sampling_ended
        if heard.taken is None and status.seen != self._request:
            return self._unheard(status)
        return self._taken(heard)

    def _unheard(self, status: Request) -> Judgement:
        if status.sequence != self._request:
            return (
                RequestAnswer.SUPERSEDED,
                f"request {status.sequence} replaced it before it was seen",
            )
        return (RequestAnswer.NONE if self.is_there else RequestAnswer.ENDED), self._since()

    def _taken(self, heard: RequestEvents) -> Judgement:
        if self._sampling_ended:
            return (
                RequestAnswer.DECLINED,
                "tracing has ended there after an error, or on a full disk",
            )
        if heard.declined is None:
            self._declining_since_s = None
            return (
                RequestAnswer.TAKEN,
                _NOTHING if heard.captures and self.is_there else self._since(),
            )
        self._declining_since_s = self._declining_since_s or time.monotonic()
        return (RequestAnswer.TAKEN if heard.captures else RequestAnswer.DECLINED), heard.declined

    def _since(self) -> str:
        """Say why no more has come."""
        if not self.is_there:
            return "has ended"
        if self.state == STOPPED:
            return "stopped by a signal or a debugger"
        idle_s = self._idle_s()
        if isinstance(idle_s, Missing):
            return "no step yet"
        of_it = "" if self._loop == ANY_LOOP else f" of loop {self._loop}"
        return f"no step{of_it} has begun since; the last one ended {idle_s:.0f} s ago"

    def _idle_s(self) -> float | Missing:
        """Return how long ago a step ended, of the loop that was asked for."""
        if isinstance(self._steps, Missing):
            return self._steps
        # As they were when it was asked: a step since would have answered.
        loops = [loop for loop in self._steps.loops if self._loop in (ANY_LOOP, loop.index)]
        ends = [int(loop.recent.end_ns[-1]) for loop in loops if len(loop.recent.end_ns)]
        if not ends:
            return Missing("there was none")
        now_ns = now_mono_ns(self._steps.header, self._manifest, loops, self._here, HostClocks())
        return (now_ns - max(ends)) / NANOSECONDS

    def _only_declines(self) -> bool:
        since_s = self._declining_since_s
        return since_s is not None and time.monotonic() - since_s > DECLINING_S

    def _executed(self) -> int | Missing:
        if isinstance(self._steps, Missing):
            return self._steps
        return sum(loop.executed for loop in self._steps.loops)


def _index_of(loops: Sequence[Loop], wanted: str) -> int:
    """Return the work with this index, else with this in its kind and name; of several the longest.

    Raises UnreadableInput where the process has none.
    """
    if wanted.isascii() and wanted.isdigit():
        found = [loop for loop in loops if str(loop.index) == wanted]
    else:
        found = [loop for loop in loops if wanted in f"{loop.kind} {loop.name}"]
    if not found:
        names = ", ".join(f"{loop.index} {loop.kind} {loop.name}" for loop in loops[:10])
        raise UnreadableInput(f"it has no loop {wanted!r}; there are: {names or 'none yet'}")
    return max(found, key=lambda loop: loop.times.sum_ns).index


def _manifest(folder: ProcessFolder) -> ProcessManifest | None:
    try:
        return read_process(folder.manifest)
    except UnreadableInput:
        return None


@dataclass(frozen=True, slots=True)
class RequestEvents:
    """What a process has said of one order so far.

    `taken` is (samples, work) as it took it, `refusal` why it does not take it at all, `declined`
    why it did not record a step since the last capture, `superseded_by` the order in its place.
    """

    taken: tuple[int, int] | None = None
    refusal: str | None = None
    declined: str | None = None
    superseded_by: int | None = None
    captures: tuple[Captured, ...] = ()


class EventTail:
    """The events of one process from one moment on."""

    def __init__(self, events: Path) -> None:
        """Begin with what is appended from now on."""
        self._path = events
        self._at_bytes = _size_bytes(events)
        self._captures: list[Captured] = []
        self.heard = RequestEvents()

    def listen(self, request: int) -> RequestEvents:
        """Return all that was said of the order of this number."""
        for line in self._new_lines():
            fields = object_of(line)
            if fields is not None:
                self._hear(fields, request)
        self.heard = replace(self.heard, captures=tuple(self._captures))
        return self.heard

    def _new_lines(self) -> list[bytes]:
        try:
            with os.fdopen(safe_files.opened(self._path.parents[2], self._path), "rb") as file:
                file.seek(self._at_bytes)
                content = file.read()
        except OSError:
            return []
        whole, newline, _ = content.rpartition(b"\n")
        self._at_bytes += len(whole) + len(newline)
        return whole.split(b"\n")

    def _hear(self, fields: Json, request: int) -> None:
        kind = fields.get("event")
        if kind == "request" and integer(fields, "superseded") == request:
            self.heard = replace(self.heard, superseded_by=integer(fields, "request"))
        if integer(fields, "request") != request:
            return
        if kind == "request":
            samples, loop = integer(fields, "samples"), integer(fields, "work")
            self.heard = replace(self.heard, taken=(samples or 0, -1 if loop is None else loop))
        elif kind == "declined" and self.heard.taken is None:
            self.heard = replace(self.heard, refusal=text(fields, "why") or "it does not say why")
        elif kind == "declined":
            self.heard = replace(self.heard, declined=text(fields, "why"))
        elif kind == "sample":
            self.heard = replace(self.heard, declined=None)
            self._note_capture(fields)

    def _note_capture(self, fields: Json) -> None:
        loop, step, file = integer(fields, "work"), integer(fields, "step"), text(fields, "capture")
        if loop is not None and step is not None and file is not None:
            self._captures.append(Captured(loop, step, file))


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
