"""Request traces from the processes of a run, all at once, and follow their answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.live.process_request import ProcessRequest
from tfprobe.profile.profile import titled
from tfprobe.profile.reader.processes import programs_of
from tfprobe.profile.snapshots import ProcessAnswer, RequestAnswer
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.trace_requests import MAX_SAMPLES

# As often as a person notices, and cheap: each time, two words and new events are read.
LOOK_S = 0.05

Answers = tuple[ProcessAnswer, ...]


class TraceRequest:
    """A request for traces that was sent to processes of one run."""

    def __init__(self, run: RunFolder, requests: Sequence[ProcessRequest], *, steps: int) -> None:
        """`requests` has one for each process, also for those that it could not be sent to."""
        self.run = run
        self.steps = steps
        self._requests = tuple(requests)

    def answers(self) -> Answers:
        """Read the answer of each process as of now."""
        return tuple(request.answer() for request in self._requests)

    def follow(
        self, *, until_met: bool, patience_s: float, tell: Callable[[Answers], None]
    ) -> Answers:
        """Return the answers when no more are expected, or after `patience_s` without news.

        Waits for a first answer of each process or, if `until_met`, for all captures. `tell` gets
        the answers so far.
        """
        answers, news_at_s = self.answers(), time.monotonic()
        while not self._is_settled(answers, until_met=until_met):
            if time.monotonic() - news_at_s >= patience_s:
                break
            tell(answers)
            time.sleep(min(LOOK_S, patience_s))
            before, answers = answers, self.answers()
            if _news(answers) != _news(before):
                news_at_s = time.monotonic()
        if any(answer.answer is RequestAnswer.TAKEN and not answer.is_met for answer in answers):
            # Why a step is not traced is written a moment after the request was accepted.
            time.sleep(LOOK_S)
            answers = self.answers()
        return answers

    def _is_settled(self, answers: Answers, *, until_met: bool) -> bool:
        pairs = zip(self._requests, answers, strict=True)
        return all(request.is_settled(answer, until_met=until_met) for request, answer in pairs)


def request_traces(
    run: RunFolder, here: Machine, *, steps: int, pid: str | int = "", loop: str = ""
) -> TraceRequest:
    """Request traces of the next `steps` steps from all processes of a run.

    `pid` chooses among them: a pid, HOST/PID, the name of a process folder, or HOST. `loop` is an
    index, or part of a kind and name; of several loops that match, the one with most time.

    Raises UsageError for a number out of range and a pid that several processes have, NoAnswer if
    no process has reported.
    """
    if not 1 <= steps <= MAX_SAMPLES:
        raise UsageError(
            f"A request for {steps:,} steps is out of range.", hint=f"Use 1 to {MAX_SAMPLES:,}."
        )
    folders = run.processes()
    if not folders:
        raise NoAnswer(
            f"No process of run {run.id} has reported yet.",
            hint="A process reports when it imports a framework; see `tfprobe report`.",
        )
    requests = [ProcessRequest(folder, here) for folder in folders]
    _add_programs(requests)
    requests = _chosen(requests, str(pid)) if pid else requests
    # Read all first, then write: all processes get the request at one moment.
    ready = [request for request in requests if request.check(loop)]
    for request in ready:
        request.send(steps)
    return TraceRequest(run, requests, steps=steps)


def document(request: TraceRequest, answers: Sequence[ProcessAnswer]) -> dict[str, Any]:
    """Return the tfprobe.trace/1 document: the answer of each process. Any: JSON values."""
    return {
        "schema": "tfprobe.trace/1",
        "run": request.run.id,
        "dir": str(request.run.root),
        "steps": request.steps,
        "processes": [_answer_document(answer) for answer in answers],
    }


def _add_programs(requests: Sequence[ProcessRequest]) -> None:
    """Set the program of each process of the run."""
    programs = programs_of([request.entry for request in requests])
    for request in requests:
        request.program = programs[request.folder.host, request.folder.name]


def _chosen(requests: Sequence[ProcessRequest], wanted: str) -> list[ProcessRequest]:
    of_host = [request for request in requests if request.folder.host == wanted]
    named = of_host or [request for request in requests if wanted in _names(request)]
    # The pid of a process that has ended may be another's by now.
    chosen = [request for request in named if request.is_there] or named
    if not chosen:
        names = ", ".join(_place(request) for request in requests[:10])
        raise NoAnswer(f"The run has no process {wanted!r}.", hint=f"There are: {names}.")
    if len(chosen) > 1 and not of_host:
        names = ", ".join(_path(request.folder) for request in chosen)
        raise UsageError(
            f"{wanted!r} is the pid of several processes.", hint=f"Choose one of {names}."
        )
    return chosen


def _names(request: ProcessRequest) -> tuple[str, ...]:
    folder, pid = request.folder, str(request.pid)
    return pid, f"{folder.host}/{pid}", folder.name, _path(folder)


def _place(request: ProcessRequest) -> str:
    pid = request.folder.name if isinstance(request.pid, Missing) else request.pid
    return titled(f"{request.folder.host}/{pid}", request.program.title)


def _path(folder: ProcessFolder) -> str:
    return f"{folder.host}/{folder.name}"


def _news(answers: Answers) -> list[tuple[RequestAnswer, int]]:
    return [(answer.answer, len(answer.captures)) for answer in answers]


def _answer_document(answer: ProcessAnswer) -> dict[str, Any]:
    return {
        "host": answer.host,
        "pid": None if isinstance(answer.pid, Missing) else answer.pid,
        "process": answer.process,
        "program": answer.program or None,
        "state": answer.state,
        "answer": answer.answer.value,
        "why": None if isinstance(answer.why, Missing) else answer.why,
        "request": None if isinstance(answer.request, Missing) else answer.request,
        "steps_before": None if isinstance(answer.executed, Missing) else answer.executed,
        "captures": [
            {"work": capture.loop, "step": capture.step, "file": capture.file}
            for capture in answer.captures
        ],
    }
