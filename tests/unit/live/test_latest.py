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
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.analysis.account.account import Account, process_accounts
from tfprobe.analysis.breakdown.cycles import Breakdown, run_breakdown
from tfprobe.errors import Missing
from tfprobe.live import breakdown_cache
from tfprobe.live.breakdown_cache import NO_PROGRESS, NONE_SAMPLED, NOT_YET, BreakdownCache
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader import live_process as newest_module
from tfprobe.profile.reader import live_process as noted_module
from tfprobe.profile.reader.live_process import noted
from tfprobe.profile.reader.run_reader import load
from tfprobe.profile.snapshots import LoopShares, WallTime
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.process_folder import jsonl

# What a decoding takes by the clock of these tests, and the time between two of them.
COST_S = 0.5
PAUSE_S = COST_S / breakdown_cache.CORE_RATIO


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
        profile = newest_module.newest_captures(*args, **kwargs)
        clock.now_s += COST_S
        return profile

    monkeypatch.setattr(breakdown_cache, "newest_captures", slow)
    return clock


def name(step: int, loop: int = 0) -> str:
    return f"{step:06d}-session_run-{loop}.run_metadata.pb"


def metadata(op: str) -> bytes:
    """Return a capture whose step of 100 µs is one op of 50 µs."""
    return run_metadata({CPU: [Node("x", 10, 50, f"x = {op}()")]})


def sample(step: int, loop: int = 0) -> dict[str, object]:
    return {
        "event": "sample",
        "work": loop,
        "step": step,
        "capture": name(step, loop),
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
        loops=[WrittenLoop(steps=regular_steps(30, step_ns=100_000, gap_ns=100_000))],
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

    shares = BreakdownCache(clock=clock).time_use(folder).shares

    assert isinstance(shares, LoopShares)
    four = {
        "before": shares.before_ratio,
        "on": shares.on_ratio,
        "after": shares.after_ratio,
        "other": shares.other_ratio,
    }
    breakdown = run_breakdown(load(RunFolder(tmp_path / "r"), Machine("elsewhere", None)))
    assert isinstance(breakdown, Breakdown)
    assert four == {name: breakdown.group(name) for name in four}
    assert four["on"] == pytest.approx(0.25, abs=1e-4)
    assert sum(four.values()) == 1
    assert (shares.captures, shares.newest_unix_ns) == (2, UNIX_NS + 5)


def test_only_the_newest_captures_are_decoded(tmp_path, clock):
    """However many there are, the latest three steps of the loop are enough."""
    folder = written(tmp_path / "r", 2, 5, 9, 11)
    folder.capture(name(2)).write_bytes(b"\xff\xff garbage")

    shares = BreakdownCache(clock=clock).time_use(folder).shares

    assert isinstance(shares, LoopShares)
    assert (shares.captures, shares.newest_unix_ns) == (3, UNIX_NS + 11)


def test_of_long_logs_the_ends_are_read(tmp_path, clock, monkeypatch):
    """What was noted of the newest captures is there; a job of a week has noted much more."""
    folder = written(tmp_path / "r", *range(40))
    whole = BreakdownCache(clock=clock).time_use(folder).shares
    monkeypatch.setattr(newest_module, "_LAST_BYTES", 1500)
    monkeypatch.setattr(noted_module, "_NOTED_LAST_BYTES", 1500)
    parsed: list[bytes] = []
    object_of = jsonl.object_of
    monkeypatch.setattr(jsonl, "object_of", lambda line: parsed.append(line) or object_of(line))

    shares = BreakdownCache(clock=clock).time_use(folder).shares

    assert (shares, isinstance(shares, LoopShares)) == (whole, True)
    assert 6 <= len(parsed) < 20


def test_the_work_is_the_one_whose_steps_took_longest(tmp_path, clock):
    """A validation that was sampled last does not stand for the training."""
    short = WrittenLoop(name="short", steps=regular_steps(3, step_ns=1_000))
    long = WrittenLoop(name="long", steps=regular_steps(30))
    process = WrittenProcess(
        loops=[short, long],
        events=[sample(2, 0), sample(1, 1)],
        captures={name(2, 0): metadata("MatMul"), name(1, 1): metadata("MatMul")},
    )
    folder = ProcessFolder(next(write_run(tmp_path / "r", [process]).glob("node7/*")))

    shares = BreakdownCache(clock=clock).time_use(folder).shares

    assert isinstance(shares, LoopShares)
    assert shares.newest_unix_ns == UNIX_NS + 1


def test_nothing_is_decoded_again_until_there_is_a_new_capture(tmp_path, clock):
    """Looking costs nothing while nothing happens."""
    folder = written(tmp_path / "r", 2)
    look = BreakdownCache(clock=clock)
    first = look.time_use(folder).shares
    clock.now_s += 10 * PAUSE_S

    before_s = clock.now_s

    assert look.time_use(folder).shares is first
    assert clock.now_s == before_s


def test_a_new_capture_is_read_when_there_is_time_for_it(tmp_path, clock):
    """Until decoding took a twentieth of the time at most, the shares before it stay."""
    folder = written(tmp_path / "r", 2)
    look = BreakdownCache(clock=clock)
    first = look.time_use(folder).shares
    add(folder, 5, metadata("MatMul"))

    at_once = look.time_use(folder).shares
    clock.now_s += PAUSE_S - COST_S
    later = look.time_use(folder).shares

    assert at_once is first
    assert isinstance(later, LoopShares)
    assert (later.captures, later.newest_unix_ns) == (2, UNIX_NS + 5)


def test_half_written_captures_are_none(tmp_path, clock):
    """What the agent has not renamed yet is not looked at."""
    folder = written(tmp_path / "r", 2)
    look = BreakdownCache(clock=clock)
    first = look.time_use(folder).shares
    (folder.captures / f".tmp-7-{name(5)}").write_bytes(metadata("MatMul")[:7])
    clock.now_s += PAUSE_S

    assert look.time_use(folder).shares is first


def test_what_ran_after_the_newest_step_is_read_when_it_is_told(tmp_path, clock):
    """The agent tells it when the next step begins, which may be a while after the capture."""
    folder = written(tmp_path / "r")
    add(folder, 2, metadata("MatMul"), is_told=False)
    look = BreakdownCache(clock=clock)
    before = look.time_use(folder).shares
    tell(folder, 2)
    clock.now_s += PAUSE_S

    after = look.time_use(folder).shares

    assert isinstance(before, LoopShares)
    assert isinstance(after, LoopShares)
    assert before.on_ratio == pytest.approx(0.5, abs=1e-5)
    assert after.on_ratio == pytest.approx(0.25, abs=1e-5)


def test_a_capture_without_its_event_does_not_stand_for_a_cycle(tmp_path, clock):
    """The event comes a moment after the file; until then the shares are as they were."""
    folder = written(tmp_path / "r", 2, 5)
    before = BreakdownCache(clock=clock).time_use(folder).shares
    add(folder, 9, metadata("MatMul"), is_told=False)
    look = BreakdownCache(clock=clock)

    untold = look.time_use(folder).shares
    tell(folder, 9)
    clock.now_s += PAUSE_S
    told = look.time_use(folder).shares

    assert isinstance(told, LoopShares)
    assert untold == before
    assert (told.captures, told.newest_unix_ns) == (3, UNIX_NS + 9)


def test_a_damaged_capture_is_tried_once(tmp_path, clock):
    """It says why there are no shares, and costs nothing more until another one comes."""
    folder = written(tmp_path / "r", 2)
    folder.capture(name(2)).write_bytes(b"\xff\xff garbage")
    look = BreakdownCache(clock=clock)
    damaged = look.time_use(folder).shares
    clock.now_s += PAUSE_S
    before_s = clock.now_s

    again = look.time_use(folder).shares
    tried_again = clock.now_s > before_s
    add(folder, 5, metadata("MatMul"))

    assert isinstance(damaged, Missing)
    assert "skipped" in damaged.reason
    assert again is damaged
    assert not tried_again
    assert isinstance(look.time_use(folder).shares, LoopShares)


def test_without_captures_there_is_a_reason(tmp_path, clock):
    """A process that took no sample is told from one whose samples are not read yet."""
    bare = written(tmp_path / "bare")
    gone = ProcessFolder(tmp_path / "no" / "host" / "1-1")
    look = BreakdownCache(clock=clock)

    assert look.time_use(bare).shares == NONE_SAMPLED
    assert look.time_use(gone).shares == NONE_SAMPLED


def test_without_its_steps_file_a_process_has_a_reason(tmp_path, clock):
    """The reason names the file."""
    folder = written(tmp_path / "r", 2)
    os.truncate(folder.steps, 100)

    shares = BreakdownCache(clock=clock).time_use(folder).shares

    assert isinstance(shares, Missing)
    assert "steps.bin" in shares.reason


def test_whoever_waits_longest_is_next(tmp_path, clock):
    """A process that samples all the time leaves the others their turn."""
    eager, patient, last = (written(tmp_path / f"r{pid}", 2, pid=pid) for pid in (1, 2, 3))
    look = BreakdownCache(clock=clock)
    turns = []
    for step in range(3, 6):
        add(eager, step, metadata("MatMul"))
        answers = [look.time_use(folder).shares for folder in (eager, patient, last)]
        turns.append([answer is not NOT_YET for answer in answers])
        clock.now_s += PAUSE_S

    assert turns == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_process_that_is_gone_keeps_nobody_waiting(tmp_path, clock):
    """Its turn is the next one's after a while."""
    first, gone, patient = (written(tmp_path / f"r{pid}", 2, pid=pid) for pid in (1, 2, 3))
    look = BreakdownCache(clock=clock)
    for folder in (first, gone, patient):
        look.time_use(folder)
    clock.now_s += PAUSE_S

    answers = [look.time_use(patient).shares for _ in range(20)]

    assert answers[0] is NOT_YET
    assert isinstance(answers[-1], LoopShares)


def told_of(root: Path) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return wall time and parts as the report has them."""
    profile = load(RunFolder(root), Machine("elsewhere", None))
    (account,) = process_accounts(profile)
    assert isinstance(account, Account)
    return account.wall_ns, tuple((part.category.value, part.ns) for part in account.parts)


def note(folder: ProcessFolder, start_ns: int, end_ns: int) -> None:
    """Have a process note a checkpoint."""
    line = {
        "activity": "save",
        "name": "net",
        "thread": "MainThread",
        "start_ns": MONO_NS + start_ns,
        "end_ns": MONO_NS + end_ns,
        "count": 1,
        "total_ns": end_ns - start_ns,
    }
    with folder.activities.open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_all_time_since_the_start_is_that_of_the_report(tmp_path, clock):
    """The captures that were decoded divide it, too."""
    folder = written(tmp_path / "r", 2, 5)
    note(folder, 6_100_000, 6_900_000)

    found = BreakdownCache(clock=clock).time_use(folder).wall_time

    assert isinstance(found, WallTime)
    assert (found.wall_ns, found.parts_ns) == told_of(tmp_path / "r")
    parts = dict(found.parts_ns)
    assert parts["checkpoints"] == 800_000
    assert sum(parts.values()) == found.wall_ns
    assert found.goodput_ratio == parts["productive"] / found.wall_ns > 0


def test_without_captures_there_is_goodput(tmp_path, clock):
    """Steps and gaps tell it."""
    folder = written(tmp_path / "r")

    found = BreakdownCache(clock=clock).time_use(folder)

    assert found.shares == NONE_SAMPLED
    assert isinstance(found.wall_time, WallTime)
    assert (found.wall_time.wall_ns, found.wall_time.parts_ns) == told_of(tmp_path / "r")


def test_goodput_waits_for_its_turn_and_says_so(tmp_path, clock):
    """Reading the captures of another process took all that decoding may take of late."""
    first, patient = (written(tmp_path / f"r{pid}", 2, pid=pid) for pid in (1, 2))
    look = BreakdownCache(clock=clock)
    look.time_use(first)

    before = look.time_use(patient).wall_time
    clock.now_s += PAUSE_S
    after = look.time_use(patient).wall_time

    assert before == NOT_YET
    assert isinstance(after, WallTime)


def test_what_was_noted_since_is_read_after_a_while_and_no_capture_again(
    tmp_path, clock, monkeypatch
):
    """The traced steps that were decoded divide what came since."""
    folder = written(tmp_path / "r", 2)
    look = BreakdownCache(clock=clock)
    first = look.time_use(folder)
    note(folder, 6_100_000, 6_900_000)
    decoded: list[ProcessFolder] = []
    monkeypatch.setattr(
        breakdown_cache, "newest_captures", lambda folder, **_: decoded.append(folder)
    )

    at_once = look.time_use(folder)
    clock.now_s += max(PAUSE_S, breakdown_cache.ACCOUNT_EVERY_S)
    later = look.time_use(folder)

    assert (at_once, decoded) == (first, [])
    assert isinstance(later.wall_time, WallTime)
    assert dict(later.wall_time.parts_ns)["checkpoints"] == 800_000
    assert later.shares is first.shares


def test_while_nothing_is_noted_nothing_is_read(tmp_path, clock, monkeypatch):
    """A run that has ended costs a look at some sizes."""
    folder = written(tmp_path / "r", 2)
    look = BreakdownCache(clock=clock)
    first = look.time_use(folder)
    read: list[ProcessFolder] = []
    monkeypatch.setattr(breakdown_cache, "noted", read.append)
    clock.now_s += 100 * breakdown_cache.ACCOUNT_EVERY_S

    again = look.time_use(folder)

    assert (again, read) == (first, [])


def test_what_reading_it_took_counts(tmp_path, clock, monkeypatch):
    """Captures wait for it as it waits for them."""
    first, patient = written(tmp_path / "r1"), written(tmp_path / "r2", 2, pid=2)

    def slow(folder: ProcessFolder) -> Profile:
        clock.now_s += COST_S
        return noted(folder)

    monkeypatch.setattr(breakdown_cache, "noted", slow)
    look = BreakdownCache(clock=clock)
    look.time_use(first)
    clock.now_s += PAUSE_S - 2 * COST_S

    waits = look.time_use(patient).shares
    clock.now_s += COST_S

    assert waits == NOT_YET
    assert isinstance(look.time_use(patient).shares, LoopShares)


def test_a_server_makes_no_progress(tmp_path, clock):
    """Which is not a goodput of 0."""
    root = write_run(tmp_path / "r", [WrittenProcess(loops=[])])
    folder = ProcessFolder(next(root.glob("node7/*")))

    found = BreakdownCache(clock=clock).time_use(folder).wall_time

    assert isinstance(found, WallTime)
    assert found.goodput_ratio == NO_PROGRESS


def test_without_its_steps_file_goodput_has_a_reason(tmp_path, clock):
    """The reason names the file."""
    folder = written(tmp_path / "r", 2)
    os.truncate(folder.steps, 100)

    found = BreakdownCache(clock=clock).time_use(folder).wall_time

    assert isinstance(found, Missing)
    assert "steps.bin" in found.reason
