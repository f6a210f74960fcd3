"""The shares of a process come from its newest captures, and decoding them is bounded."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import (
    MONO_NS,
    UNIX_NS,
    WrittenProcess,
    WrittenWork,
    regular_steps,
    write_run,
)
from tfprobe.errors import Missing
from tfprobe.ingest import newest as newest_module
from tfprobe.ingest.run import load
from tfprobe.live import latest
from tfprobe.live.latest import NONE_SAMPLED, NOT_YET, Latest
from tfprobe.model.fleet import Shares
from tfprobe.store import lines
from tfprobe.store.layout import ProcessFolder, RunFolder
from tfprobe.store.liveness import Machine
from tfprobe.views.breakdown.whole import Breakdown, divide

# What a decoding takes by the clock of these tests, and the time between two of them.
COST_S = 0.5
PAUSE_S = COST_S / latest.CORE_RATIO


@dataclass
class Clock:
    """Seconds that pass where a test, or a reading, lets them."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock by which each reading takes COST_S."""
    clock = Clock(1000.0)

    def slow(*args, **kwargs):
        profile = newest_module.newest(*args, **kwargs)
        clock.now_s += COST_S
        return profile

    monkeypatch.setattr(latest, "newest", slow)
    return clock


def name(step: int, work: int = 0) -> str:
    return f"{step:06d}-session_run-{work}.run_metadata.pb"


def metadata(op: str) -> bytes:
    """Return a capture whose step of 100 µs is one op of 50 µs."""
    return run_metadata({CPU: [Node("x", 10, 50, f"x = {op}()")]})


def sample(step: int, work: int = 0) -> dict[str, object]:
    return {
        "event": "sample",
        "work": work,
        "step": step,
        "capture": name(step, work),
        "level": "full",
        "start_ns": MONO_NS,
        "end_ns": MONO_NS + 100_000,
        "start_unix_ns": UNIX_NS + step,
    }


def gap(step: int, *, duration_ns: int = 100_000) -> dict[str, object]:
    """Return what ran after a step: a callback of Keras and nothing else."""
    start_ns = MONO_NS + 100_000
    return {
        "work": 0,
        "step": step,
        "start_ns": start_ns,
        "end_ns": start_ns + duration_ns,
        "cost_ns": 0,
        "cut": False,
        "calls": [[-1, 0, 1, 1, duration_ns]],
        "functions": [["/job.py", 1, "on_train_batch_end", False]],
    }


def written(root: Path, *steps: int, pid: int = 1, op: str = "MatMul") -> ProcessFolder:
    """Write a run of one process with these steps sampled and followed."""
    process = WrittenProcess(
        pid=pid,
        works=[WrittenWork(steps=regular_steps(30, step_ns=100_000, gap_ns=100_000))],
        events=[sample(step) for step in steps],
        gaps=[gap(step) for step in steps],
        captures={name(step): metadata(op) for step in steps},
    )
    return ProcessFolder(next(write_run(root, [process]).glob("node7/*")))


def add(folder: ProcessFolder, step: int, content: bytes, *, is_told: bool = True) -> None:
    """Write one more capture as the agent does, and its event and gap where it is told."""
    temporary = folder.captures / f".tmp-7-{name(step)}"
    temporary.write_bytes(content)
    temporary.rename(folder.capture(name(step)))
    if is_told:
        tell(folder, step)


def tell(folder: ProcessFolder, step: int) -> None:
    for path, line in ((folder.events, sample(step)), (folder.gaps, gap(step))):
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def test_the_four_shares_are_those_of_the_report(tmp_path, clock):
    """Half of each cycle is the step, of it half an op; the other half is a callback."""
    folder = written(tmp_path / "r", 2, 5)

    shares = Latest(clock=clock).shares(folder)

    assert isinstance(shares, Shares)
    four = {
        "before": shares.before_ratio,
        "on": shares.on_ratio,
        "after": shares.after_ratio,
        "other": shares.other_ratio,
    }
    breakdown = divide(load(RunFolder(tmp_path / "r"), Machine("elsewhere", None)))
    assert isinstance(breakdown, Breakdown)
    assert four == {name: breakdown.group(name) for name in four}
    assert four["on"] == pytest.approx(0.25, abs=1e-4)
    assert sum(four.values()) == 1
    assert (shares.captures, shares.newest_unix_ns) == (2, UNIX_NS + 5)


def test_only_the_newest_captures_are_decoded(tmp_path, clock):
    """However many there are, the latest three steps of the work are enough."""
    folder = written(tmp_path / "r", 2, 5, 9, 11)
    folder.capture(name(2)).write_bytes(b"\xff\xff garbage")

    shares = Latest(clock=clock).shares(folder)

    assert isinstance(shares, Shares)
    assert (shares.captures, shares.newest_unix_ns) == (3, UNIX_NS + 11)


def test_of_long_logs_the_ends_are_read(tmp_path, clock, monkeypatch):
    """What was noted of the newest captures is there; a job of a week has noted much more."""
    folder = written(tmp_path / "r", *range(40))
    whole = Latest(clock=clock).shares(folder)
    monkeypatch.setattr(newest_module, "_LAST_BYTES", 1500)
    parsed: list[bytes] = []
    object_of = lines.object_of
    monkeypatch.setattr(lines, "object_of", lambda line: parsed.append(line) or object_of(line))

    shares = Latest(clock=clock).shares(folder)

    assert (shares, isinstance(shares, Shares)) == (whole, True)
    assert 6 <= len(parsed) < 20


def test_the_work_is_the_one_whose_steps_took_longest(tmp_path, clock):
    """A validation that was sampled last does not stand for the training."""
    short = WrittenWork(name="short", steps=regular_steps(3, step_ns=1_000))
    long = WrittenWork(name="long", steps=regular_steps(30))
    process = WrittenProcess(
        works=[short, long],
        events=[sample(2, 0), sample(1, 1)],
        captures={name(2, 0): metadata("MatMul"), name(1, 1): metadata("MatMul")},
    )
    folder = ProcessFolder(next(write_run(tmp_path / "r", [process]).glob("node7/*")))

    shares = Latest(clock=clock).shares(folder)

    assert isinstance(shares, Shares)
    assert shares.newest_unix_ns == UNIX_NS + 1


def test_nothing_is_decoded_again_until_there_is_a_new_capture(tmp_path, clock):
    """Looking costs nothing while nothing happens."""
    folder = written(tmp_path / "r", 2)
    look = Latest(clock=clock)
    first = look.shares(folder)
    clock.now_s += 10 * PAUSE_S

    before_s = clock.now_s

    assert look.shares(folder) is first
    assert clock.now_s == before_s


def test_a_new_capture_is_read_when_there_is_time_for_it(tmp_path, clock):
    """Until decoding took a twentieth of the time at most, the shares before it stay."""
    folder = written(tmp_path / "r", 2)
    look = Latest(clock=clock)
    first = look.shares(folder)
    add(folder, 5, metadata("MatMul"))

    at_once = look.shares(folder)
    clock.now_s += PAUSE_S - COST_S
    later = look.shares(folder)

    assert at_once is first
    assert isinstance(later, Shares)
    assert (later.captures, later.newest_unix_ns) == (2, UNIX_NS + 5)


def test_half_written_captures_are_none(tmp_path, clock):
    """What the agent has not renamed yet is not looked at."""
    folder = written(tmp_path / "r", 2)
    look = Latest(clock=clock)
    first = look.shares(folder)
    (folder.captures / f".tmp-7-{name(5)}").write_bytes(metadata("MatMul")[:7])
    clock.now_s += PAUSE_S

    assert look.shares(folder) is first


def test_what_ran_after_the_newest_step_is_read_when_it_is_told(tmp_path, clock):
    """The agent tells it when the next step begins, which may be a while after the capture."""
    folder = written(tmp_path / "r")
    add(folder, 2, metadata("MatMul"), is_told=False)
    look = Latest(clock=clock)
    before = look.shares(folder)
    tell(folder, 2)
    clock.now_s += PAUSE_S

    after = look.shares(folder)

    assert isinstance(before, Shares)
    assert isinstance(after, Shares)
    assert before.on_ratio == pytest.approx(0.5, abs=1e-5)
    assert after.on_ratio == pytest.approx(0.25, abs=1e-5)


def test_a_capture_without_its_event_does_not_stand_for_a_cycle(tmp_path, clock):
    """The event comes a moment after the file; until then the shares are as they were."""
    folder = written(tmp_path / "r", 2, 5)
    before = Latest(clock=clock).shares(folder)
    add(folder, 9, metadata("MatMul"), is_told=False)
    look = Latest(clock=clock)

    untold = look.shares(folder)
    tell(folder, 9)
    clock.now_s += PAUSE_S
    told = look.shares(folder)

    assert isinstance(told, Shares)
    assert untold == before
    assert (told.captures, told.newest_unix_ns) == (3, UNIX_NS + 9)


def test_a_damaged_capture_is_tried_once(tmp_path, clock):
    """It says why there are no shares, and costs nothing more until another one comes."""
    folder = written(tmp_path / "r", 2)
    folder.capture(name(2)).write_bytes(b"\xff\xff garbage")
    look = Latest(clock=clock)
    damaged = look.shares(folder)
    clock.now_s += PAUSE_S
    before_s = clock.now_s

    again = look.shares(folder)
    tried_again = clock.now_s > before_s
    add(folder, 5, metadata("MatMul"))

    assert isinstance(damaged, Missing)
    assert "skipped" in damaged.reason
    assert again is damaged
    assert not tried_again
    assert isinstance(look.shares(folder), Shares)


def test_without_captures_there_is_a_reason(tmp_path, clock):
    """A process that took no sample is told from one whose samples are not read yet."""
    bare = written(tmp_path / "bare")
    gone = ProcessFolder(tmp_path / "no" / "host" / "1-1")
    look = Latest(clock=clock)

    assert look.shares(bare) == NONE_SAMPLED
    assert look.shares(gone) == NONE_SAMPLED


def test_without_its_steps_file_a_process_has_a_reason(tmp_path, clock):
    """The reason names the file."""
    folder = written(tmp_path / "r", 2)
    os.truncate(folder.steps, 100)

    shares = Latest(clock=clock).shares(folder)

    assert isinstance(shares, Missing)
    assert "steps.bin" in shares.reason


def test_whoever_waits_longest_is_next(tmp_path, clock):
    """A process that samples all the time leaves the others their turn."""
    eager, patient, last = (written(tmp_path / f"r{pid}", 2, pid=pid) for pid in (1, 2, 3))
    look = Latest(clock=clock)
    turns = []
    for step in range(3, 6):
        add(eager, step, metadata("MatMul"))
        answers = [look.shares(folder) for folder in (eager, patient, last)]
        turns.append([answer is not NOT_YET for answer in answers])
        clock.now_s += PAUSE_S

    assert turns == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_process_that_is_gone_keeps_nobody_waiting(tmp_path, clock):
    """Its turn is the next one's after a while."""
    first, gone, patient = (written(tmp_path / f"r{pid}", 2, pid=pid) for pid in (1, 2, 3))
    look = Latest(clock=clock)
    for folder in (first, gone, patient):
        look.shares(folder)
    clock.now_s += PAUSE_S

    answers = [look.shares(patient) for _ in range(20)]

    assert answers[0] is NOT_YET
    assert isinstance(answers[-1], Shares)
