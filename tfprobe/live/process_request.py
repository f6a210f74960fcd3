"""A request for traces to one process, and its answer.

Only files connect tfprobe and the job, which may be in another container or of another user. The
events of the process have its answer; its control words do if the disk has no room for events.
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

# A process that only declined for so long will not accept while somebody waits.
DECLINING_S = 5.0
NANOSECONDS = 1_000_000_000
_NO_AGENT = (
    "it was recorded through a profiler service and has no agent; "
    "use `tfprobe capture` to record more of it"
)
_NOTHING = Missing("nothing prevents it from recording")

Judgement = tuple[RequestAnswer, str | Missing]


class ProcessRequest:
    """A request for the next steps of one process of a run."""

    def __init__(self, folder: ProcessFolder, here: Machine) -> None:
        """Read who it is; nothing is sent yet."""
        self.folder = folder
        # Known when all processes of the run have been read.
        self.program = Program("", "", 0)
        self._here = here
        self._manifest = _manifest(folder)
        self._steps: StepsFile | Missing = Missing("its steps.bin has not been read")
        self._header: Header | None = None
        self._refusal: tuple[RequestAnswer, str] | None = None
        self._samples, self._loop = 0, ANY_LOOP
        self._request = 0
        self._events = EventTail(folder.events)
        self._declining_since_s: float | None = None
        self._sampling_ended = False

    @property
    def pid(self) -> int | Missing:
        """Return its pid, if its files have it."""
        if self._is_of_a_service:
            return Missing("its service did not report it")
        if self._manifest is not None:
            return self._manifest.pid
        return Missing("process.json cannot be read") if self._header is None else self._header.pid

    @property
    def state(self) -> str:
        """Return its state, from its files and /proc."""
        return ended_process(self.folder, self._header, self._manifest, self._here)

    @property
    def is_there(self) -> bool:
        """Say whether it may run more steps: it is running, stopped, or not visible from here."""
        is_over = self._manifest is not None and is_gone(self._manifest, self._here)
        return self.state in LIVE or (self.state == UNKNOWN and not is_over)

    @property
    def entry(self) -> ProcessEntry:
        """Return what its files have, for naming it among the others."""
        lost = Missing("it has not been read")
        return ProcessEntry(
            self.folder, self._manifest or lost, self._header or lost, 0, self.state
        )

    def check(self, loop: str) -> bool:
        """Return whether it can trace steps of `loop` (of any loop if empty)."""
        if self._is_of_a_service:
            self._refusal = RequestAnswer.NOT_SENT, _NO_AGENT
            return False
        try:
            self._steps = read_steps(self.folder.steps)
            self._header = self._steps.header
            self._refusal = self._unable(self._steps.header)
            if self._refusal is None and loop:
                self._loop = _index_of(self._steps.loops, loop)
        except UnreadableInput as problem:
            self._refusal = RequestAnswer.NOT_SENT, self._briefly(problem)
        return self._refusal is None

    def send(self, samples: int) -> None:
        """Write the request into its control words."""
        self._samples = samples
        try:
            self._request = request_samples(self.folder.steps, samples=samples, loop=self._loop)
        except UnreadableInput as problem:
            self._refusal = RequestAnswer.NOT_SENT, self._briefly(problem)

    def answer(self) -> ProcessAnswer:
        """Read its answer as of now."""
        events = self._events.read(self._request) if self._request else RequestEvents()
        answer, why = self._refusal or self._judge(events)
        return ProcessAnswer(
            host=self.folder.host,
            pid=self.pid,
            process=self.folder.name,
            state=self.state,
            answer=answer,
            why=why,
            samples=self._samples,
            captures=events.captures,
            request=self._request or Missing("it got no request"),
            executed=self._executed(),
            program=self.program.title or self.program.name,
        )

    def is_settled(self, answer: ProcessAnswer, *, until_met: bool) -> bool:
        """Say whether this answer is final."""
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
        """Return the reason without the folder, so that many processes may have the same one."""
        return str(problem).replace(f"{self.folder.root}/", "").rstrip(".")

    @property
    def _is_of_a_service(self) -> bool:
        return self._manifest is not None and self._manifest.service is not None

    @property
    def _refused(self) -> bool:
        """Say whether the request as a whole was declined, and not only some of its steps."""
        return self._refusal is not None or self._events.state.refusal is not None

    def _unable(self, header: Header) -> tuple[RequestAnswer, str] | None:
        if not self.is_there:
            return RequestAnswer.ENDED, "had ended before"
        if header.state is AgentState.STEPPED_ASIDE:
            return (
                RequestAnswer.NOT_SENT,
                "the agent there disabled itself after an internal error",
            )
        return None

    def _judge(self, events: RequestEvents) -> Judgement:
        if len(events.captures) >= self._samples:
            return RequestAnswer.TAKEN, _NOTHING
        if events.superseded_by is not None:
            return RequestAnswer.SUPERSEDED, f"request {events.superseded_by} replaced it"
        if events.taken not in (None, (self._samples, self._loop)):
            return RequestAnswer.SUPERSEDED, "another request was made at the same time"
        if events.refusal is not None:
            return RequestAnswer.DECLINED, events.refusal
        try:
            self._header = read_header(self.folder.steps)
            status = request_status(self.folder.steps)
        except UnreadableInput as problem:
            self._refusal = RequestAnswer.ENDED, f"its files are gone: {self._briefly(problem)}"
            return self._refusal
        self._sampling_ended = status.sampling_ended
        if events.taken is None and status.seen != self._request:
            return self._unseen(status)
        return self._taken(events)

    def _unseen(self, status: Request) -> Judgement:
        if status.sequence != self._request:
            return (
                RequestAnswer.SUPERSEDED,
                f"request {status.sequence} replaced it before it was seen",
            )
        return (RequestAnswer.NONE if self.is_there else RequestAnswer.ENDED), self._since()

    def _taken(self, events: RequestEvents) -> Judgement:
        if self._sampling_ended:
            return (
                RequestAnswer.DECLINED,
                "tracing has ended there after an error, or on a full disk",
            )
        if events.declined is None:
            self._declining_since_s = None
            return (
                RequestAnswer.TAKEN,
                _NOTHING if events.captures and self.is_there else self._since(),
            )
        self._declining_since_s = self._declining_since_s or time.monotonic()
        return (RequestAnswer.TAKEN if events.captures else RequestAnswer.DECLINED), events.declined

    def _since(self) -> str:
        """Return why there are no more captures."""
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
        """Return how long ago a step of the requested loop ended."""
        if isinstance(self._steps, Missing):
            return self._steps
        # As of the request: a later step would have answered it.
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
    """Return the loop with this index, else the longest with this in its kind and name.

    Raises UnreadableInput where the process has none.
    """
    if wanted.isascii() and wanted.isdigit():
        matching = [loop for loop in loops if str(loop.index) == wanted]
    else:
        matching = [loop for loop in loops if wanted in f"{loop.kind} {loop.name}"]
    if not matching:
        names = ", ".join(f"{loop.index} {loop.kind} {loop.name}" for loop in loops[:10])
        raise UnreadableInput(f"it has no loop {wanted!r}; there are: {names or 'none yet'}")
    return max(matching, key=lambda loop: loop.times.sum_ns).index


def _manifest(folder: ProcessFolder) -> ProcessManifest | None:
    try:
        return read_process(folder.manifest)
    except UnreadableInput:
        return None


@dataclass(frozen=True, slots=True)
class RequestEvents:
    """The events of a process about one request so far.

    `taken` is (samples, loop) as it accepted them, `refusal` why it declined the whole request,
    `declined` why it did not trace a step since the last capture, `superseded_by` the request that
    replaced this one.
    """

    taken: tuple[int, int] | None = None
    refusal: str | None = None
    declined: str | None = None
    superseded_by: int | None = None
    captures: tuple[Captured, ...] = ()


class EventTail:
    """The events that a process appends from one moment on."""

    def __init__(self, events: Path) -> None:
        """Start at the current end of the file."""
        self._path = events
        self._at_bytes = _size_bytes(events)
        self._captures: list[Captured] = []
        self.state = RequestEvents()

    def read(self, request: int) -> RequestEvents:
        """Return all events about the request of this number."""
        for line in self._new_lines():
            fields = object_of(line)
            if fields is not None:
                self._apply(fields, request)
        self.state = replace(self.state, captures=tuple(self._captures))
        return self.state

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

    def _apply(self, fields: Json, request: int) -> None:
        kind = fields.get("event")
        if kind == "request" and integer(fields, "superseded") == request:
            self.state = replace(self.state, superseded_by=integer(fields, "request"))
        if integer(fields, "request") != request:
            return
        if kind == "request":
            samples, loop = integer(fields, "samples"), integer(fields, "work")
            self.state = replace(self.state, taken=(samples or 0, -1 if loop is None else loop))
        elif kind == "declined" and self.state.taken is None:
            self.state = replace(self.state, refusal=text(fields, "why") or "no reason given")
        elif kind == "declined":
            self.state = replace(self.state, declined=text(fields, "why"))
        elif kind == "sample":
            self.state = replace(self.state, declined=None)
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
