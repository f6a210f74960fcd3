"""Whenever a process is killed, its counts are those of the steps it had completed."""

from __future__ import annotations

import mmap
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from tests.support.agent import PATIENCE_S, Laboratory
from tfprobe.profile.profile import Loop
from tfprobe.runs.catalogue import glance
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import FINISHED, KILLED, UNKNOWN, this_machine
from tfprobe.runs.process_folder.steps import bucket_of, read_steps
from tfprobe.runs.process_folder.steps_layout import BUCKETS, RING_STEPS

PROCESSES = 64
STEPS = 10_000
# The second loop has one step for four of the first; in both every 50th raises.
EVERY, RAISING = 4, 50
AT_ONCE = 4
SEED = 6
# Before a process has begun rather than after: most of this time is the start of Python.
START_S = 0.3

# Each loop keeps its own record besides the recording, in memory that outlives the process:
# completed steps, time in the bodies and in whole calls by its own stopwatch, and when it began.
# Every word is written after the step has returned, the count last.
JOB = f"""
import mmap
COMPLETED, RAISED, BODY_NS, CALL_NS, BEFORE_NS, AFTER_NS, WORDS = range(7)
steps, announced = int(sys.argv[2]), int(sys.argv[3])
with open(sys.argv[1], "r+b") as file:
    words = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
now_ns = time.monotonic_ns
body_ns = 0

def body(value):
    global body_ns
    began_ns = now_ns()
    if value % {RAISING} == {RAISING - 1}:
        raise ValueError(value)
    body_ns = now_ns() - began_ns

class Fetch:
    name = "loss"
    def __call__(self):
        body(self.value)

def note(own, call, value):
    global body_ns
    body_ns = raised = 0
    began_ns = now_ns()
    try:
        call(value)
    except ValueError:
        raised = 1
    ended_ns = now_ns()
    if not own[COMPLETED]:
        own[BEFORE_NS], own[AFTER_NS] = began_ns, ended_ns
    own[BODY_NS] += body_ns
    own[CALL_NS] += ended_ns - began_ns
    own[RAISED] += raised
    own[COMPLETED] += 1

def loss(value):
    fetch.value = value
    session.run(fetch)

fetch, step = Fetch(), def_function.Function(body)
books = words[:WORDS], words[WORDS:]
for n in range(steps):
    if n == announced:
        os.write(1, b"!")
    note(books[0], loss, n)
    if n % {EVERY} == 0:
        note(books[1], step, n // {EVERY})
if announced >= steps:
    os.write(1, b"!")
sys.stdin.read()
"""


@dataclass(frozen=True)
class OwnRecord:
    """What a loop recorded about itself."""

    completed: int
    raised: int
    body_ns: int
    call_ns: int
    before_ns: int
    after_ns: int


@dataclass(frozen=True)
class Fate:
    """When a process is killed: some time after its start, after it announced a step, or never."""

    announced: int = STEPS
    delay_s: float = 0.0
    waits: bool = True
    is_killed: bool = True


@dataclass(frozen=True)
class Victim:
    """A process that has ended, and its two records."""

    pid: int
    loss: OwnRecord
    step: OwnRecord


def _fates() -> list[Fate]:
    """Some before they begin, most among their steps, some after the last, and some never."""
    chance = random.Random(SEED)
    early = [Fate(delay_s=chance.uniform(0, START_S), waits=False) for _ in range(8)]
    # The delay separates the kill from the step that announced it.
    among = [Fate(chance.randrange(STEPS), chance.uniform(0, 0.003)) for _ in range(46)]
    return early + among + [Fate()] * 5 + [Fate(is_killed=False)] * 5


def _live_and_die(laboratory: Laboratory, number: int, fate: Fate) -> Victim:
    path = laboratory.folder / f"books-{number}"
    path.write_bytes(bytes(mmap.PAGESIZE)[: 2 * 6 * 8])
    arguments = f"sys.argv[1:] = [{str(path)!r}, '{STEPS}', '{fate.announced}']\n"
    process = laboratory.start(arguments + JOB)
    assert process.stdout is not None
    if fate.waits:
        assert process.stdout.read(1) == b"!"
    time.sleep(fate.delay_s)
    if fate.is_killed:
        process.kill()
    process.communicate(timeout=PATIENCE_S)
    words = np.frombuffer(path.read_bytes(), dtype="<i8").reshape(2, 6).tolist()
    return Victim(process.pid, OwnRecord(*words[0]), OwnRecord(*words[1]))


def _check(loop: Loop, own: OwnRecord) -> None:
    """Compare the recording of a loop with its own record."""
    assert own.completed <= loop.executed <= own.completed + 1
    # The number of raised steps is stored before the count: a kill between them leaves it ahead.
    is_about_to_raise = loop.executed % RAISING == RAISING - 1
    assert 0 <= loop.raised - loop.executed // RAISING <= is_about_to_raise
    for durations, count in ((loop.times, loop.executed), (loop.gaps, loop.executed - 1)):
        assert durations.count == int(durations.buckets.sum()) == max(count, 0)
    if loop.executed and own.completed:
        _check_times(loop, own)


def _check_times(loop: Loop, own: OwnRecord) -> None:
    recent = loop.recent
    step_ns = recent.end_ns - recent.start_ns
    assert own.body_ns <= loop.times.sum_ns <= own.call_ns + int(step_ns[-1])
    # Steps and the gaps between them are all the time from the first to the last.
    began_ns = int(recent.end_ns[-1]) - loop.times.sum_ns - loop.gaps.sum_ns
    assert own.before_ns <= began_ns <= own.after_ns
    assert loop.times.min_ns <= int(step_ns.min()) <= int(step_ns.max()) <= loop.times.max_ns
    assert loop.gaps.min_ns >= 0
    if loop.executed <= RING_STEPS - 1:
        counts = np.bincount(bucket_of(step_ns), minlength=BUCKETS)
        assert recent.first_step == 0
        assert loop.times.sum_ns == int(step_ns.sum())
        assert loop.times.buckets.tolist() == counts.tolist()


@pytest.mark.slow
# 8 s of CPU time; much longer on a busy machine.
@pytest.mark.timeout(600)
def test_every_count_is_right_to_the_last_completed_step(laboratory: Laboratory) -> None:
    """64 processes of 10,000 steps each are killed at random moments: counts, histograms, sums."""
    laboratory.arm()
    fates = _fates()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        victims = list(
            pool.map(lambda numbered: _live_and_die(laboratory, *numbered), enumerate(fates))
        )

    assert len(victims) == PROCESSES
    entry = glance(RunFolder(laboratory.run), this_machine())
    folders = {int(process.folder.name.split("-")[0]): process for process in entry.processes}
    for victim, fate in zip(victims, fates, strict=True):
        recorded = folders.get(victim.pid)
        if recorded is None or not victim.loss.completed:
            assert victim.loss.completed == 0
            continue
        assert recorded.state == (KILLED if fate.is_killed else FINISHED)
        loops = {loop.name: loop for loop in read_steps(recorded.folder.steps).loops}
        for name, own in (("loss", victim.loss), ("step", victim.step)):
            if name in loops or own.completed:
                _check(loops[name], own)
    assert {process.state for process in entry.processes} <= {KILLED, FINISHED, UNKNOWN}
    _check_that_fates_differed(victims)


def _check_that_fates_differed(victims: list[Victim]) -> None:
    completed = [victim.loss.completed for victim in victims]
    assert any(0 < count < STEPS for count in completed)
    assert completed.count(STEPS) >= 10
    assert all(victim.step.completed == STEPS // EVERY for victim in victims[-10:])
