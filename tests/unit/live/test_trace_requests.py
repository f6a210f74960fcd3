"""What is said of an order follows from the files of a process alone."""

from __future__ import annotations

import errno
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import (
    BOOT_ID,
    HOST,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.live import process_request
from tfprobe.live.trace_requests import TraceRequest, document, request_traces
from tfprobe.live.watched_process import HostClocks
from tfprobe.profile.snapshots import ProcessAnswer, RequestAnswer
from tfprobe.report.text.runs import render_trace_request
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import Machine

TICKS = 1234
LOOPS = (
    WrittenLoop(name="loss", steps=regular_steps(40)),
    WrittenLoop(kind="fit", name="net", steps=regular_steps(4)),
    WrittenLoop(kind="evaluate", name="net", steps=regular_steps(9)),
)


class Place:
    """A run of processes that are there, by a /proc of ours."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = root / "proc"

    def write(self, *processes: WrittenProcess) -> RunFolder:
        for process in processes:
            self.see(process.pid)
        return RunFolder(write_run(self.root / "run", processes))

    def see(self, pid: int, *, state: str = "S") -> None:
        (self.proc / str(pid)).mkdir(parents=True, exist_ok=True)
        fields = [state, *["0"] * 18, str(TICKS)]
        (self.proc / str(pid) / "stat").write_text(f"{pid} (python) {' '.join(fields)}\n")

    def end(self, pid: int) -> None:
        (self.proc / str(pid) / "stat").unlink()

    @property
    def here(self) -> Machine:
        return Machine(HOST, BOOT_ID, self.proc)

    def request(
        self, run: RunFolder, *, steps: int = 3, pid: str = "", loop: str = ""
    ) -> TraceRequest:
        return request_traces(run, self.here, steps=steps, pid=pid, loop=loop)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Where processes 4711 and others run."""
    return Place(tmp_path)


def _one(given: TraceRequest) -> ProcessAnswer:
    (answer,) = given.answers()
    return answer


def _folder(run: RunFolder) -> ProcessFolder:
    (folder,) = run.processes()
    return folder


def _words(folder: ProcessFolder, at: int, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}q", folder.steps.read_bytes(), at * 8)


def _put(folder: ProcessFolder, **words: int) -> None:
    places = {"sequence": 32, "seen": 40, "left": 41, "ended": 42}
    with folder.steps.open("r+b") as file:
        for name, value in words.items():
            file.seek(places[name] * 8)
            file.write(struct.pack("<q", value))


def _tell(folder: ProcessFolder, *events: dict[str, Any]) -> None:
    with folder.events.open("a") as file:
        file.writelines(f"{json.dumps({'unix_ns': 1, **event})}\n" for event in events)


def _took(samples: int = 3, loop: int = -1, **more: Any) -> dict[str, Any]:
    return {"event": "request", "request": 1, "samples": samples, "work": loop, **more}


def _sample(step: int, request: int = 1) -> dict[str, Any]:
    name = f"{step:06}-session_run-0.run_metadata.pb"
    return {"event": "sample", "request": request, "work": 0, "step": step, "capture": name}


def test_processes_are_told_by_what_they_run(place: Place) -> None:
    """A pid alone says nothing of a script of several programs."""
    argv = [["python", "prepare.py"], ["python", "train.py"]]
    run = place.write(
        *(WrittenProcess(pid=pid, manifest={"argv": argv[pid - 1]}) for pid in (1, 2))
    )
    given = place.request(run)
    answers = given.answers()

    shown = render_trace_request("run", 3, answers, width=100, colour=False)

    assert [line.split()[1:3] for line in shown.splitlines()[2:4]] == [
        ["1", "prepare.py"],
        ["2", "train.py"],
    ]
    assert "prepare.py (pid 1), train.py (pid 2): no step yet" in shown
    programs = [each["program"] for each in document(given, answers)["processes"]]
    assert programs == ["prepare.py", "train.py"]
    with pytest.raises(NoAnswer) as refused:
        place.request(run, pid="77")
    assert f"prepare.py ({HOST}/1), train.py ({HOST}/2)" in refused.value.hint


def test_one_program_is_not_repeated_for_each_process(place: Place) -> None:
    """What all run tells none apart."""
    answers = place.request(place.write(WrittenProcess(pid=1), WrittenProcess(pid=2))).answers()

    shown = render_trace_request("run", 3, answers, width=100, colour=False)

    assert "program" not in shown
    assert "1, 2: no step yet" in shown


def test_an_order_is_written_for_all_processes(place: Place) -> None:
    """Each has it in its control words, and none has answered."""
    run = place.write(WrittenProcess(pid=1, loops=LOOPS), WrittenProcess(pid=2, loops=LOOPS))

    answers = place.request(run).answers()

    assert [_words(folder, 32, 3) for folder in run.processes()] == [(1, 3, -1)] * 2
    assert [(a.pid, a.answer, a.executed) for a in answers] == [
        (p, RequestAnswer.NONE, 53) for p in (1, 2)
    ]
    assert all("no step has begun since" in str(answer.why) for answer in answers)


def test_a_step_is_as_old_as_the_clock_says_that_nobody_sets(place: Place, monkeypatch) -> None:
    """The wall clock was set since the process started."""
    run = place.write(WrittenProcess(loops=LOOPS))
    end_ns = max(end for loop in LOOPS for _, end in loop.steps)
    monkeypatch.setattr(
        process_request, "HostClocks", lambda: HostClocks(mono_ns=lambda: end_ns + 7 * 10**9)
    )

    answer = _one(place.request(run))

    assert str(answer.why).endswith("the last one ended 7 s ago")


def test_what_a_profiler_service_recorded_has_nobody_to_ask(place: Place) -> None:
    """It has no steps.bin; it may be recorded again in the way it was."""
    service = {"address": f"{HOST}:6009", "port": 6009, "steps": 12, "duration_ns": 1_000_000}
    manifest = {"pid": None, "service": service}
    run = place.write(WrittenProcess(6009, manifest=manifest))
    _folder(run).steps.unlink()

    answer = _one(place.request(run))

    assert (answer.answer, isinstance(answer.pid, Missing)) == (RequestAnswer.NOT_SENT, True)
    assert "tfprobe capture" in str(answer.why)
    with pytest.raises(NoAnswer, match=f"{HOST}/{_folder(run).root.name}"):
        place.request(run, pid="4712")


def test_captures_are_those_of_this_order(place: Place) -> None:
    """Not what the budget took meanwhile, nor those of an order before."""
    run = place.write(WrittenProcess(loops=LOOPS, events=[_sample(3)]))
    given = place.request(run, steps=2)

    _tell(_folder(run), _took(2), _sample(40), _sample(41, request=7), {"event": "sample"})
    first = _one(given)
    _tell(_folder(run), _sample(42))
    second = _one(given)

    assert (first.answer, [c.step for c in first.captures], first.is_met) == (
        RequestAnswer.TAKEN,
        [40],
        False,
    )
    assert ([c.step for c in second.captures], second.is_met) == ([40, 42], True)


def test_a_line_that_is_being_written_is_read_when_it_is_whole(place: Place) -> None:
    """And garbage between lines is passed over."""
    run = place.write(WrittenProcess(loops=LOOPS))
    given = place.request(run, steps=1)
    events = _folder(run).events

    with events.open("a") as file:
        file.write('{"event": 7}\nnoise\n[1]\n{"event": "sample", "request": 1, "work": 0, "step"')
    before = _one(given)
    with events.open("a") as file:
        file.write(': 8, "capture": "x.pb"}\n')
    after = _one(given)

    assert (len(before.captures), [c.step for c in after.captures]) == (0, [8])


@pytest.mark.parametrize(
    ("events", "answer", "why"),
    [
        ([{"event": "declined", "request": 1, "why": "off"}], RequestAnswer.DECLINED, "off"),
        (
            [_took(), {"event": "declined", "request": 1, "why": "busy"}],
            RequestAnswer.DECLINED,
            "busy",
        ),
        (
            [_took(), {"event": "request", "request": 2, "superseded": 1}],
            RequestAnswer.SUPERSEDED,
            "request 2",
        ),
        ([_took(samples=9)], RequestAnswer.SUPERSEDED, "at the same time"),
        ([_took(loop=1)], RequestAnswer.SUPERSEDED, "at the same time"),
        ([_took()], RequestAnswer.TAKEN, "no step has begun"),
    ],
)
def test_what_the_job_notes_is_the_answer(place: Place, events, answer, why) -> None:
    """Declined as a whole or step by step; superseded by a later order, or by one given with it."""
    run = place.write(WrittenProcess(loops=LOOPS))
    given = place.request(run)

    _tell(_folder(run), *events)

    found = _one(given)
    assert found.answer is answer
    assert why in str(found.why)


def test_control_words_answer_where_no_event_finds_room(place: Place) -> None:
    """Taken; superseded before it was heard; and that sampling has ended, as on a full disk."""
    run = place.write(WrittenProcess(loops=LOOPS))
    given = place.request(run)

    found = []
    for words in ({"seen": 1, "left": 3}, {"ended": 1}, {"ended": 0, "seen": 2, "sequence": 2}):
        _put(_folder(run), **words)
        found.append(_one(given).answer)

    assert found == [RequestAnswer.TAKEN, RequestAnswer.DECLINED, RequestAnswer.SUPERSEDED]


def test_a_process_that_ended_is_not_asked(place: Place) -> None:
    """Its control words stay as they were."""
    run = place.write(WrittenProcess(loops=LOOPS))
    place.end(4711)

    found = _one(place.request(run))

    assert (found.answer, found.why, found.state) == (
        RequestAnswer.ENDED,
        "had ended before",
        "killed",
    )
    assert isinstance(found.request, Missing)
    assert _words(_folder(run), 32, 3) == (0, 0, 0)


def test_a_process_that_ends_in_the_middle_has_what_it_took(place: Place) -> None:
    """One of three captures, and that it has ended."""
    run = place.write(WrittenProcess(loops=LOOPS))
    given = place.request(run)

    _tell(_folder(run), _took(), _sample(40))
    place.end(4711)
    found = given.follow(until_met=True, patience_s=60, tell=_ignore)

    assert [(f.answer, f.why, len(f.captures)) for f in found] == [
        (RequestAnswer.TAKEN, "has ended", 1)
    ]


def test_nobody_waits_for_a_stopped_process(place: Place) -> None:
    """It takes the order when it is let go on; who waits is told."""
    run = place.write(WrittenProcess(loops=LOOPS))
    place.see(4711, state="T")

    (found,) = place.request(run).follow(until_met=True, patience_s=60, tell=_ignore)

    assert (found.answer, found.state) == (RequestAnswer.NONE, "stopped")
    assert found.why == "stopped by a signal or a debugger"


def test_a_process_that_nobody_here_can_see_is_asked_all_the_same(place: Place) -> None:
    """In another container its pid means nothing here; its files do."""
    run = place.write(WrittenProcess(loops=LOOPS, manifest={"boot_id": "another"}))
    given = request_traces(run, Machine("elsewhere", "there", place.proc), steps=1)

    _tell(_folder(run), _took(1), _sample(40))
    (found,) = given.follow(until_met=True, patience_s=60, tell=_ignore)

    assert (found.state, found.answer, found.is_met) == ("unknown", RequestAnswer.TAKEN, True)


def test_waiting_ends_when_nothing_new_comes(place: Place) -> None:
    """After a patience that begins anew with all that comes."""
    run = place.write(WrittenProcess(loops=LOOPS))
    told: list[int] = []

    def take(answers: tuple[ProcessAnswer, ...]) -> None:
        told.append(len(answers[0].captures))
        if len(told) == 1:
            _tell(_folder(run), _took(), _sample(40))

    (found,) = place.request(run).follow(until_met=True, patience_s=0.2, tell=take)

    assert (found.answer, len(found.captures)) == (RequestAnswer.TAKEN, 1)
    assert told[:2] == [0, 1]


def test_a_run_that_vanishes_is_told(place: Place) -> None:
    """Between the order and the answer."""
    run = place.write(WrittenProcess(loops=LOOPS))
    given = place.request(run)

    _folder(run).steps.unlink()
    (found,) = given.follow(until_met=True, patience_s=60, tell=_ignore)

    assert found.answer is RequestAnswer.ENDED
    assert "its files are gone" in str(found.why)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_file_that_cannot_be_written_is_told(place: Place, monkeypatch, number: int) -> None:
    """A read-only mount, another user's job, a full disk: that process is not asked."""
    run = place.write(WrittenProcess(pid=1, loops=LOOPS), WrittenProcess(pid=2, loops=LOOPS))
    really = os.open

    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_RDWR:
            raise OSError(number, os.strerror(number))
        return really(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    found = place.request(run).answers()

    assert [each.answer for each in found] == [RequestAnswer.NOT_SENT] * 2
    assert f"steps.bin cannot be written: {os.strerror(number)}" in str(found[0].why)
    assert found[0].why == found[1].why


@pytest.mark.parametrize(
    ("wanted", "index"),
    [("", -1), ("loss", 0), ("fit", 1), ("net", 2), ("evaluate net", 2), ("1", 1)],
)
def test_a_work_is_named_or_numbered(place: Place, wanted: str, index: int) -> None:
    """By part of its kind and name, of several the one with most time; or by its index."""
    run = place.write(WrittenProcess(loops=LOOPS))

    place.request(run, loop=wanted)

    assert _words(_folder(run), 34, 1) == (index,)


@pytest.mark.parametrize("wanted", ["nix", "3", "-1", "٣"])
def test_a_work_that_is_not_there_is_told(place: Place, wanted: str) -> None:
    """With those that are; nothing is written."""
    run = place.write(WrittenProcess(loops=LOOPS))

    found = _one(place.request(run, loop=wanted))

    assert found.answer is RequestAnswer.NOT_SENT
    assert "0 session_run loss" in str(found.why)
    assert _words(_folder(run), 32, 1) == (0,)


def test_one_process_is_chosen_by_pid_or_folder(place: Place) -> None:
    """A host chooses all of its processes; a pid of several has to be told apart."""
    run = place.write(
        WrittenProcess(pid=1), WrittenProcess(pid=2), WrittenProcess(pid=2, host="node8")
    )
    name = run.processes()[0].name

    def asked(pid: str) -> list[tuple[str, Any]]:
        return [(a.host, a.pid) for a in place.request(run, pid=pid).answers()]

    assert asked("1") == asked(name) == asked(f"{HOST}/1") == asked(f"{HOST}/{name}") == [(HOST, 1)]
    assert asked(HOST) == [(HOST, 1), (HOST, 2)]
    with pytest.raises(UsageError, match="several"):
        place.request(run, pid="2")
    with pytest.raises(NoAnswer, match="no process"):
        place.request(run, pid="77")


def test_of_processes_with_one_pid_the_one_that_is_there_is_meant(place: Place) -> None:
    """The other ended, and the system gave its pid to somebody else."""
    run = place.write(WrittenProcess(pid=2, manifest={"pid_started_ticks": 5}))
    write = WrittenProcess(pid=2, loops=LOOPS)
    os.rename(_folder(run).root, _folder(run).root.with_name("2-1"))
    from tests.support.rundir import write_process

    write_process(run.root, write)

    (found,) = place.request(run, pid="2").answers()

    assert (found.executed, found.state) == (53, "running")


@pytest.mark.parametrize("steps", [0, -1, 10**9])
def test_a_senseless_number_of_steps_is_refused(place: Place, steps: int) -> None:
    """Before anything is written."""
    run = place.write(WrittenProcess(loops=LOOPS))

    with pytest.raises(UsageError, match=r"1 to 1,000,000"):
        place.request(run, steps=steps)
    assert _words(_folder(run), 32, 1) == (0,)


def test_garbage_in_the_control_words_is_no_sequence(place: Place) -> None:
    """The next order is one more than what both sides can have counted."""
    run = place.write(WrittenProcess(loops=LOOPS))
    for garbage in (-5, (1 << 63) - 1):
        _put(_folder(run), sequence=garbage, seen=6)

        place.request(run)

        assert _words(_folder(run), 32, 1) == (7,)


def test_a_run_without_a_process_has_nobody_to_ask(place: Place) -> None:
    """The job has not imported TensorFlow yet, or never does."""
    with pytest.raises(NoAnswer, match="No process"):
        place.request(place.write())


def _ignore(_: tuple[ProcessAnswer, ...]) -> None:
    """Hear no news."""
