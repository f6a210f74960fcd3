"""Order samples from the processes of a run, all at once, and follow what becomes of the order."""

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

# As often as a person can tell, and at next to no cost: a look reads two words and new events.
LOOK_S = 0.05

Answers = tuple[ProcessAnswer, ...]


class TraceRequest:
    """An order that was given to processes of one run."""

    def __init__(self, run: RunFolder, asked: Sequence[ProcessRequest], *, steps: int) -> None:
        """`asked` are those it was given to, and those it could not be given to."""
        self.run = run
        self.steps = steps
        self._asked = tuple(asked)

    def answers(self) -> Answers:
        """Read what has become of it so far, process by process."""
        return tuple(each.answer() for each in self._asked)

    def follow(
        self, *, until_met: bool, patience_s: float, tell: Callable[[Answers], None]
    ) -> Answers:
        """Return the answers once no more are to come, or nothing new came for `patience_s`.

        Waits for a first word of each process; where `until_met`, for all captures.
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
            # Why a step is not recorded is written a moment after the order was taken.
            time.sleep(LOOK_S)
            answers = self.answers()
        return answers

    def _is_settled(self, answers: Answers, *, until_met: bool) -> bool:
        pairs = zip(self._asked, answers, strict=True)
        return all(each.is_settled(answer, until_met=until_met) for each, answer in pairs)


def order(
    run: RunFolder, here: Machine, *, steps: int, pid: str | int = "", loop: str = ""
) -> TraceRequest:
    """Order the next `steps` steps from all processes of a run.

    `pid` chooses among them: a pid, HOST/PID, the name of a process folder, or HOST. `work` is an
    index, or part of a kind and name; of several loops that have it, the one with most time.

    Raises UsageError for a senseless number and a pid that several have, NoAnswer where no process
    has reported.
    """
    if not 1 <= steps <= MAX_SAMPLES:
        raise UsageError(
            f"A request for {steps:,} steps is out of range.", hint=f"Use 1 to {MAX_SAMPLES:,}."
        )
    folders = run.processes()
    if not folders:
        raise NoAnswer(
            f"No process of run {run.id} has reported yet.",
            hint="A process reports when it imports TensorFlow; see `tfprobe report`.",
        )
    asked = [ProcessRequest(folder, here) for folder in folders]
    _name(asked)
    asked = _chosen(asked, str(pid)) if pid else asked
    # Read first and write then, so that all are asked at one moment.
    ready = [each for each in asked if each.look(loop)]
    for each in ready:
        each.ask(steps)
    return TraceRequest(run, asked, steps=steps)


def document(given: TraceRequest, answers: Sequence[ProcessAnswer]) -> dict[str, Any]:
    """Return the tfprobe.trace/1 document: who answered what. Any: JSON values."""
    return {
        "schema": "tfprobe.trace/1",
        "run": given.run.id,
        "dir": str(given.run.root),
        "steps": given.steps,
        "processes": [_answer_document(answer) for answer in answers],
    }


def _name(asked: Sequence[ProcessRequest]) -> None:
    """Say of each process of the run what it runs."""
    known = programs_of([each.entry for each in asked])
    for each in asked:
        each.program = known[each.folder.host, each.folder.name]


def _chosen(asked: Sequence[ProcessRequest], wanted: str) -> list[ProcessRequest]:
    host = [each for each in asked if each.folder.host == wanted]
    found = host or [each for each in asked if wanted in _names(each)]
    # The pid of a process that has ended may be another's by now.
    there = [each for each in found if each.is_there] or found
    if not there:
        names = ", ".join(_place(each) for each in asked[:10])
        raise NoAnswer(f"The run has no process {wanted!r}.", hint=f"There are: {names}.")
    if len(there) > 1 and not host:
        names = ", ".join(_path(each.folder) for each in there)
        raise UsageError(
            f"{wanted!r} is the pid of several processes.", hint=f"Choose one of {names}."
        )
    return there


def _names(asked: ProcessRequest) -> tuple[str, ...]:
    folder, pid = asked.folder, str(asked.pid)
    return pid, f"{folder.host}/{pid}", folder.name, _path(folder)


def _place(asked: ProcessRequest) -> str:
    pid = asked.folder.name if isinstance(asked.pid, Missing) else asked.pid
    return titled(f"{asked.folder.host}/{pid}", asked.program.title)


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
