"""Steps that a call only queues end when the job has waited for them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.agent import load, replace_unpatched
from tfprobe.analysis.core.main_loop import unknown_times
from tfprobe.analysis.steps.step_times import step_time_summary
from tfprobe.errors import Missing
from tfprobe.profile import profile
from tfprobe.runs.process_folder.queued_steps import spread_out
from tfprobe.runs.process_folder.steps import StepsReader, read_steps

layout, loop_module = load("core.steps_layout"), load("core.loop")
steps_file, threads = load("core.steps_file"), load("core.threads")
queued_steps = load("frameworks.queued_steps")

START_NS = 7_000_000_000_000
CALL_NS, STEP_NS, HOST_NS = 100_000, 5_000_000, 300_000


class Job:
    """A program that queues steps on a device, which runs one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ns = self.idle_ns = START_NS
        self.file = steps_file.StepsFile(str(path), START_NS)
        self.current = threads.THREAD.current

    def loop(self, name: str = "train_step") -> Any:
        """A new loop of this thread whose calls only queue steps."""
        loop = self.file.add_loop("jit", name, "MainThread", 77, START_NS)
        queued_steps.enroll(self.current, loop)
        return loop

    def call(self, loop: Any, step_ns: int = STEP_NS, call_ns: int = CALL_NS) -> None:
        """Queue one step."""
        start_ns = self.now_ns
        self.now_ns += call_ns
        self.idle_ns = max(self.idle_ns, start_ns) + step_ns
        loop.record(start_ns, self.now_ns)

    def wait(self) -> None:
        """Read a value of the step queued last."""
        began_ns, was_ready = self.now_ns, self.now_ns >= self.idle_ns
        self.now_ns = max(self.now_ns, self.idle_ns)
        queued_steps.waited(began_ns, was_ready)

    def work(self, ns: int = HOST_NS) -> None:
        """Do something in Python."""
        self.now_ns += ns

    def read(self) -> tuple[profile.Loop, ...]:
        """The loops as the analyser reads them."""
        self.file.write()
        return read_steps(self.path).loops


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job with a clock of its own, in a thread without loops."""
    monkeypatch.setattr(threads.THREAD, "current", threads.ThreadState())
    program = Job(tmp_path / "steps.bin")
    replace_unpatched(monkeypatch, queued_steps, monotonic_ns=lambda: program.now_ns)
    return program


def test_a_step_that_is_waited_for_ends_with_the_wait(job: Job) -> None:
    """Its call is known apart, and what Python does before the next call is a gap."""
    loop = job.loop()
    for _ in range(10):
        job.call(loop)
        job.wait()
        job.work()

    (record,) = job.read()

    assert (record.recent.end_ns - record.recent.start_ns).tolist() == 10 * [STEP_NS]
    assert record.gaps.sum_ns == 9 * HOST_NS
    queue = record.queue
    assert queue is not None
    assert (queue.waits, queue.unfinished, queue.steps_per_wait) == (9, 0, 1.0)
    assert queue.is_one_by_one
    assert queue.exposed_ratio == 1.0
    assert (queue.call_ns, queue.wait_ns) == (9 * CALL_NS, 9 * (STEP_NS - CALL_NS))


def test_two_values_of_one_step_are_one_wait(job: Job) -> None:
    """The second is there by then; what it takes to copy it belongs to the gap."""
    loop = job.loop()
    for _ in range(2):
        job.call(loop)
        job.wait()
        job.work()
        job.wait()

    (record,) = job.read()

    assert record.queue is not None
    assert record.queue.waits == 1
    assert record.times.sum_ns == 2 * STEP_NS


@pytest.mark.parametrize("traced_ns", [STEP_NS, 2 * STEP_NS])
def test_a_wait_for_what_is_computed_behind_a_step_belongs_to_the_gap(job: Job, traced_ns) -> None:
    """A norm of the weights, which JAX compiles for itself, is no part of the step before it."""
    loop = job.loop()
    loop.drained_ns = traced_ns
    for _ in range(10):
        job.call(loop)
        job.wait()
        job.idle_ns += HOST_NS
        job.wait()

    (record,) = job.read()

    assert record.times.sum_ns == 10 * STEP_NS
    assert record.gaps.sum_ns == 9 * HOST_NS


def test_a_step_ends_with_its_own_wait_behind_that_for_the_value_of_an_earlier_one(
    job: Job,
) -> None:
    """That value was there already when the call returned."""
    loop = job.loop()
    loop.drained_ns = STEP_NS
    for _ in range(10):
        job.call(loop)
        queued_steps.waited(job.now_ns, was_ready=True)
        job.wait()
        job.work()

    (record,) = job.read()

    assert record.times.sum_ns == 10 * STEP_NS
    assert record.gaps.sum_ns == 9 * HOST_NS


def test_a_value_that_is_there_already_does_not_lengthen_the_step(job: Job) -> None:
    """When it was there, nobody knows: the step keeps the length of its call."""
    loop = job.loop()
    for _ in range(3):
        job.call(loop)
        job.work(2 * STEP_NS)
        job.wait()

    (record,) = job.read()

    assert (record.recent.end_ns - record.recent.start_ns).tolist() == 3 * [CALL_NS]
    assert record.queue is not None
    assert (record.queue.waits, record.queue.unfinished) == (0, 0)
    assert unknown_times(record) is None


@pytest.mark.parametrize("steps", [50, 5_000, 20_000])
@pytest.mark.parametrize("every", [1, 7, 1_500])
def test_the_mean_is_that_of_the_programs_own_clock(job: Job, steps: int, every: int) -> None:
    """However rarely it waits: time over steps, up to the last wait, in memory or folded."""
    loop = job.loop()
    began_ns = job.now_ns
    for step in range(steps):
        job.call(loop)
        if step % every == every - 1 or step == steps - 1:
            job.wait()

    (record,) = job.read()

    assert record.executed == steps
    assert record.times.count == steps
    assert record.times.sum_ns + record.gaps.sum_ns == job.now_ns - began_ns
    times = step_time_summary(record)
    assert not isinstance(times, Missing)
    assert times.mean_ns == pytest.approx((job.now_ns - began_ns) / steps, rel=0.02)
    assert times.p50_ns == pytest.approx(STEP_NS, rel=0.15)
    assert record.queue is not None
    assert record.queue.is_one_by_one == (every == 1)


@pytest.mark.parametrize(
    ("device_ns", "host_ns"),
    [(8_000_000, 1_000_000), (8_000_000, 10_000_000), (500_000, 20_000_000)],
)
def test_of_the_time_between_queued_steps_what_the_device_was_idle_remains(
    job: Job, device_ns: int, host_ns: int
) -> None:
    """What a program that did nothing between its calls would have saved."""
    loop = job.loop()
    for step in range(400):
        job.work(host_ns)
        job.call(loop, step_ns=device_ns)
        if step % 10 == 9:
            job.wait()

    (record,) = job.read()

    length_ns = job.now_ns - START_NS
    idle_ns = length_ns - 400 * device_ns
    assert record.times.sum_ns + record.gaps.sum_ns == length_ns - host_ns
    assert record.gaps.sum_ns == pytest.approx(idle_ns, rel=0.05, abs=40 * host_ns)
    assert record.queue is not None
    ratio = record.gaps.sum_ns / (399 * host_ns)
    assert record.queue.exposed_ratio == pytest.approx(ratio, rel=0.01)


def test_a_call_that_compiles_stays_a_slow_step(job: Job) -> None:
    """The time of a run is spread over its steps, but not that of a call."""
    loop = job.loop()
    job.call(loop, call_ns=40 * STEP_NS)
    for _ in range(9):
        job.call(loop)
    job.wait()

    (record,) = job.read()

    times_ns = record.recent.end_ns - record.recent.start_ns
    assert times_ns[0] > 40 * STEP_NS
    assert times_ns[1:].max() < 2 * STEP_NS
    assert times_ns.sum() == job.now_ns - START_NS


def test_without_a_wait_no_length_is_known(job: Job) -> None:
    """Calls are short until the queue is full: their times say nothing of the steps."""
    loop = job.loop()
    for _ in range(10_000):
        job.call(loop)

    (record,) = job.read()

    assert record.executed == 10_000
    assert record.times.count == 0
    assert isinstance(step_time_summary(record), Missing)
    assert "queue" in str(unknown_times(record))


def test_steps_after_the_last_wait_are_counted_and_have_no_length(job: Job) -> None:
    """As in a running job, whose latest step nobody has waited for yet."""
    loop = job.loop()
    for _ in range(5):
        job.call(loop)
        job.wait()
    job.call(loop)

    (record,) = job.read()

    assert (record.executed, record.times.count) == (6, 5)
    assert record.queue is not None
    assert record.queue.unfinished == 1
    assert record.is_remembered


def test_the_wait_belongs_to_the_loop_with_the_longest_steps(job: Job) -> None:
    """A small one after it queues its step, too. Until one is traced, the first call decides."""
    train, metrics = job.loop(), job.loop("metrics")
    for step in range(20):
        job.call(train, call_ns=2 * CALL_NS if step == 0 else CALL_NS)
        job.call(metrics, step_ns=1_000, call_ns=30 * CALL_NS if step == 0 else CALL_NS)
        if step == 2:
            train.drained_ns = STEP_NS
        job.wait()

    of_train, of_metrics = job.read()

    assert of_train.queue is not None
    assert of_metrics.queue is not None
    assert (of_train.queue.unfinished, of_metrics.queue.unfinished) == (0, 20)
    assert of_train.times.count == 18
    assert "together" in str(unknown_times(of_metrics))


OTHER_NS = 3_000_000


def take_turns(
    job: Job, loops: tuple[Any, Any], cycles: int, *, every: int = 1, host_ns: int = HOST_NS
) -> None:
    """Call two functions in each cycle, which are traced in its 5th, and wait at every Nth."""
    for cycle in range(cycles):
        for loop, step_ns in zip(loops, (STEP_NS, OTHER_NS), strict=True):
            if cycle == 4:
                loop.drained_ns = step_ns
            job.work(host_ns)
            job.call(loop, step_ns=step_ns)
        if cycle % every == every - 1 or cycle == cycles - 1:
            job.wait()


@pytest.mark.parametrize("cycles", [60, 5_000])
@pytest.mark.parametrize("every", [1, 7, 50])
@pytest.mark.parametrize("host_ns", [HOST_NS, 20_000_000])
def test_functions_that_take_turns_have_a_time_each(
    job: Job, cycles: int, every: int, host_ns: int
) -> None:
    """As a generator and a discriminator do, whether the device keeps up with the host or not."""
    loops = job.loop("discriminate"), job.loop("generate")
    take_turns(job, loops, cycles, every=every, host_ns=host_ns)

    both = job.read()

    for loop, step_ns in zip(both, (STEP_NS, OTHER_NS), strict=True):
        assert unknown_times(loop) is None
        assert loop.queue is not None
        assert loop.times.sum_ns / loop.times.count == pytest.approx(step_ns, rel=0.06)
        assert loop.times.count >= cycles - max(every, 5)
        times = step_time_summary(loop)
        assert not isinstance(times, Missing)
        assert times.p50_ns == pytest.approx(step_ns, rel=0.06)
        assert loop.queue.is_one_by_one == (every == 1)


def test_steps_that_take_turns_do_not_overlap(job: Job) -> None:
    """Each begins where the one before ended, in the order of their calls."""
    loops = job.loop("discriminate"), job.loop("generate")
    take_turns(job, loops, 60, every=10)

    both = job.read()

    steps = sorted(
        (int(start_ns), int(end_ns))
        for loop in both
        for start_ns, end_ns in zip(loop.recent.start_ns, loop.recent.end_ns, strict=True)
    )
    late_ns = [later[0] - earlier[1] for earlier, later in itertools.pairwise(steps[20:])]
    assert min(late_ns) >= -1_000
    assert sum(later[1] - later[0] for later in steps[20:]) == pytest.approx(
        steps[-1][1] - steps[20][0], rel=0.02
    )


def test_a_function_that_runs_once_in_five_calls_of_another_has_its_time(job: Job) -> None:
    """As the generator of a GAN whose critic is trained more often."""
    critic, generator = job.loop("critic"), job.loop("generator")
    critic.drained_ns, generator.drained_ns = STEP_NS, OTHER_NS
    for _ in range(100):
        for _ in range(5):
            job.call(critic)
        job.call(generator, step_ns=OTHER_NS)
        job.wait()

    of_critic, of_generator = job.read()

    assert of_critic.times.sum_ns == pytest.approx(500 * STEP_NS, rel=0.02)
    assert of_generator.times.sum_ns == pytest.approx(100 * OTHER_NS, rel=0.02)


def test_a_phase_in_which_functions_take_turns_ends_before_the_next_one(job: Job) -> None:
    """A training of two functions, and an evaluation of one, which are waited for together."""
    loops, evaluation = (job.loop("discriminate"), job.loop("generate")), job.loop("evaluate")
    loops[0].drained_ns, loops[1].drained_ns, evaluation.drained_ns = STEP_NS, OTHER_NS, EVAL_NS
    for _ in range(5):
        for _ in range(30):
            job.call(loops[0])
            job.call(loops[1], step_ns=OTHER_NS)
        for _ in range(20):
            job.call(evaluation, step_ns=EVAL_NS)
        job.wait()

    records = job.read()

    sums_ns = [record.times.sum_ns for record in records]
    assert sums_ns == [
        pytest.approx(150 * STEP_NS, rel=0.02),
        pytest.approx(150 * OTHER_NS, rel=0.02),
        pytest.approx(100 * EVAL_NS, rel=0.02),
    ]


def test_functions_that_are_called_twice_in_a_row_have_a_time_each(job: Job) -> None:
    """Two steps of one, then two of others, which so follow as a phase of their own."""
    loops = [job.loop(name) for name in ("first", "second", "third")]
    for loop, step_ns in zip(loops, (STEP_NS, OTHER_NS, EVAL_NS), strict=True):
        loop.drained_ns = step_ns
    for _ in range(50):
        for loop, step_ns, times in zip(
            loops, (STEP_NS, OTHER_NS, EVAL_NS), (2, 2, 1), strict=True
        ):
            for _ in range(times):
                job.call(loop, step_ns=step_ns)
        job.wait()

    sums_ns = [record.times.sum_ns for record in job.read()]

    assert sums_ns == [
        pytest.approx(100 * STEP_NS, rel=0.02),
        pytest.approx(100 * OTHER_NS, rel=0.02),
        pytest.approx(50 * EVAL_NS, rel=0.02),
    ]


def test_a_call_that_compiles_stays_slow_among_functions_that_take_turns(job: Job) -> None:
    """Its time is that of its own step, not of the other's."""
    loops = job.loop("discriminate"), job.loop("generate")
    take_turns(job, loops, 20)
    job.call(loops[0], call_ns=40 * STEP_NS)
    job.call(loops[1], step_ns=OTHER_NS)
    job.wait()

    of_first, of_second = job.read()

    assert int(of_first.recent.end_ns[-1] - of_first.recent.start_ns[-1]) > 39 * STEP_NS
    assert int(of_second.recent.end_ns[-1] - of_second.recent.start_ns[-1]) < 2 * OTHER_NS


def test_values_that_are_there_already_do_not_lengthen_steps_that_take_turns(job: Job) -> None:
    """The program reads them long after: the steps last as long as traced ones."""
    loops = job.loop("discriminate"), job.loop("generate")
    loops[0].drained_ns, loops[1].drained_ns = STEP_NS, OTHER_NS
    for _ in range(50):
        job.call(loops[0])
        job.call(loops[1], step_ns=OTHER_NS)
        job.work(30_000_000)
        job.wait()

    of_first, of_second = job.read()

    assert of_second.queue is not None
    assert of_second.queue.waits == 0
    times_ns = of_first.recent.end_ns - of_first.recent.start_ns
    assert np.median(times_ns) == pytest.approx(STEP_NS, rel=0.1)
    times_ns = of_second.recent.end_ns - of_second.recent.start_ns
    assert np.median(times_ns) == pytest.approx(OTHER_NS, rel=0.1)


EVAL_NS = 2_000_000


def train_and_evaluate(job: Job, train: Any, evaluation: Any, *, every: int = 100) -> None:
    """Run one epoch of 75 steps, waiting at every Nth, and 40 of evaluation; wait, and pause."""
    for step in range(75):
        job.call(train)
        if step % every == every - 1:
            job.wait()
    for _ in range(40):
        job.call(evaluation, step_ns=EVAL_NS)
    job.wait()
    job.work(700_000_000)


@pytest.mark.parametrize("every", [20, 100])
def test_a_wait_behind_two_loops_is_divided_by_their_traced_steps(job: Job, every: int) -> None:
    """The program reads the losses of a training and an evaluation only behind both."""
    train, evaluation = job.loop(), job.loop("eval_step")
    train.drained_ns, evaluation.drained_ns = STEP_NS, EVAL_NS
    for _ in range(4):
        train_and_evaluate(job, train, evaluation, every=every)

    of_train, of_evaluation = job.read()

    assert of_train.times.sum_ns == pytest.approx(4 * 75 * STEP_NS, rel=0.02)
    assert of_evaluation.times.sum_ns == pytest.approx(4 * 40 * EVAL_NS, rel=0.02)
    train_gaps_ns = 3 * (700_000_000 + 40 * EVAL_NS)
    assert of_train.gaps.sum_ns == pytest.approx(train_gaps_ns, rel=0.02)
    assert of_train.queue is not None
    assert of_train.queue.undivided == 0


def test_what_the_program_does_between_calls_does_not_lengthen_the_steps_before(job: Job) -> None:
    """The device keeps up with it: the first loop is over when its last step is."""
    train, evaluation = job.loop(), job.loop("eval_step")
    train.drained_ns, evaluation.drained_ns = STEP_NS, EVAL_NS
    for _ in range(30):
        job.work(3 * STEP_NS)
        job.call(train)
    for _ in range(20):
        job.work(3 * STEP_NS)
        job.call(evaluation, step_ns=EVAL_NS)
    job.wait()

    of_train, of_evaluation = job.read()

    assert of_train.times.sum_ns == pytest.approx(30 * STEP_NS, rel=0.05)
    assert of_evaluation.times.sum_ns == pytest.approx(20 * EVAL_NS, rel=0.05)


def test_before_both_were_traced_nothing_says_how_long_each_took(job: Job) -> None:
    """Such steps have no time, rather than one loop that of both."""
    train, evaluation = job.loop(), job.loop("eval_step")
    train_and_evaluate(job, train, evaluation)

    before = job.read()
    train.drained_ns, evaluation.drained_ns = STEP_NS, EVAL_NS
    for _ in range(2):
        train_and_evaluate(job, train, evaluation)
    of_train, of_evaluation = job.read()

    assert [loop.times.count for loop in before] == [0, 0]
    assert all("together" in str(unknown_times(loop)) for loop in before)
    assert (of_train.times.count, of_evaluation.times.count) == (150, 80)
    assert of_train.times.sum_ns == pytest.approx(150 * STEP_NS, rel=0.02)
    assert of_evaluation.times.sum_ns == pytest.approx(80 * EVAL_NS, rel=0.02)
    assert of_train.queue is not None
    assert of_train.queue.undivided == 75


def test_a_short_phase_that_was_not_traced_leaves_the_time_to_the_others(job: Job) -> None:
    """What is left for it is less than the error of theirs, so that it alone has no time."""
    train, evaluation = job.loop(), job.loop("eval_step")
    train.drained_ns = STEP_NS
    for _ in range(2):
        for _ in range(75):
            job.call(train)
        for _ in range(5):
            job.call(evaluation, step_ns=EVAL_NS)
        job.wait()

    of_train, of_evaluation = job.read()

    assert of_train.times.sum_ns == pytest.approx(150 * STEP_NS, rel=0.05)
    assert of_train.queue is not None
    assert of_train.queue.undivided == 0
    assert "together" in str(unknown_times(of_evaluation))


def test_what_one_loop_took_is_left_for_the_other(job: Job) -> None:
    """The program waits for some of its training steps alone, which says how long they take."""
    train, evaluation = job.loop(), job.loop("eval_step")
    for _ in range(4):
        train_and_evaluate(job, train, evaluation, every=20)

    of_train, of_evaluation = job.read()

    assert of_train.times.sum_ns == pytest.approx(4 * 75 * STEP_NS, rel=0.02)
    assert of_evaluation.times.sum_ns == pytest.approx(4 * 40 * EVAL_NS, rel=0.02)


def test_one_call_between_two_loops_divides_nothing(job: Job) -> None:
    """A function that sums up what an evaluation computed, once, is no loop of its own."""
    evaluation, total = job.loop("eval_step"), job.loop("total")
    for _ in range(3):
        for _ in range(40):
            job.call(evaluation, step_ns=EVAL_NS)
        job.call(total, step_ns=1_000)
        job.wait()

    of_evaluation, of_total = job.read()

    assert of_evaluation.times.sum_ns == pytest.approx(120 * EVAL_NS, rel=0.02)
    assert isinstance(unknown_times(of_total), Missing)


def test_a_reader_sees_how_a_wait_was_divided(job: Job) -> None:
    """Steps far back get their times then, of the loop that nobody waited for, too."""
    train, evaluation = job.loop(), job.loop("eval_step")
    train.drained_ns, evaluation.drained_ns = STEP_NS, EVAL_NS
    reader = StepsReader(job.path)
    train_and_evaluate(job, train, evaluation)
    for _ in range(75):
        job.call(train)
    for _ in range(40):
        job.call(evaluation, step_ns=EVAL_NS)
    job.file.write()
    reader.read()

    job.wait()
    job.file.write()

    facts = [(loop.times.sum_ns, loop.gaps.sum_ns) for loop in reader.read().loops]
    assert facts == [(loop.times.sum_ns, loop.gaps.sum_ns) for loop in read_steps(job.path).loops]


def test_a_reader_sees_how_steps_that_took_turns_were_divided(job: Job) -> None:
    """All that were queued get their times with the wait, long after they were called."""
    loops = job.loop("discriminate"), job.loop("generate")
    reader = StepsReader(job.path)
    take_turns(job, loops, 20)
    for _ in range(40):
        job.call(loops[0])
        job.call(loops[1], step_ns=OTHER_NS)
    job.file.write()
    reader.read()

    job.wait()
    job.file.write()

    facts = [(loop.times.sum_ns, loop.gaps.sum_ns) for loop in reader.read().loops]
    assert facts == [(loop.times.sum_ns, loop.gaps.sum_ns) for loop in read_steps(job.path).loops]


def test_a_reader_sees_that_the_latest_step_has_ended(job: Job) -> None:
    """The wait may come long after the step was counted."""
    loop, reader = job.loop(), StepsReader(job.path)
    job.call(loop)
    job.wait()
    job.call(loop)
    job.file.write()
    (before,) = reader.read().loops
    job.wait()
    job.file.write()

    (after,) = reader.read().loops

    assert (before.times.count, after.times.count) == (1, 2)


@pytest.mark.parametrize("traced", [0.0, 0.05])
@pytest.mark.parametrize("longest_ns", [1_000_000, 10_000])
def test_writer_and_reader_spread_a_run_alike(longest_ns: int, traced: float) -> None:
    """Whatever the lengths, waits, traces and threads."""
    dice = random.Random(3)
    words: list[int] = []
    now = START_NS
    for _ in range(3_000):
        start = now + dice.randrange(1_000)
        is_traced = dice.random() < traced
        now = start + (1_000_000 if is_traced else dice.randrange(longest_ns))
        flags = layout.WAITED_FLAG if dice.random() < 0.2 or is_traced else 0
        flags |= layout.TRACED_FLAG if is_traced else 0
        flags |= layout.NEW_THREAD_FLAG if dice.random() < 0.01 else 0
        words += [start, now | flags]

    drained_ns = 1_000_000 if traced else 0
    spread = loop_module.spread_out(words, drained_ns)
    written = np.array(spread, dtype=np.int64).reshape(-1, 2)

    raw = np.array(words, dtype=np.int64).reshape(-1, 2)
    none = np.zeros(len(raw), dtype=np.bool_)
    read, _ = spread_out(
        profile.RecentSteps(
            first_step=0,
            start_ns=raw[:, 0],
            end_ns=raw[:, 1] & layout.TIME_MASK,
            sampled=raw[:, 1] & layout.TRACED_FLAG != 0,
            raised=none,
            new_thread=raw[:, 1] & layout.NEW_THREAD_FLAG != 0,
            watched=none,
            waited=raw[:, 1] & layout.WAITED_FLAG != 0,
        )
    )
    assert written[:, 0].tolist() == read.start_ns.tolist()
    assert (written[:, 1] & layout.TIME_MASK).tolist() == read.end_ns.tolist()
    assert (written[:, 1] & ~layout.TIME_MASK == raw[:, 1] & ~layout.TIME_MASK).all()


def test_the_waits_of_traced_steps_are_not_the_programs(job: Job) -> None:
    """It waits once in fifty steps, whatever was traced in between."""
    loop = job.loop()
    for step in range(200):
        if step % 40 == 21:  # its arguments, and its result, are waited for
            began_ns, was_ready = job.now_ns, job.now_ns >= job.idle_ns
            job.now_ns = max(job.now_ns, job.idle_ns)
            queued_steps.waited(began_ns, was_ready, is_ours=True)
            loop.record(job.now_ns, job.now_ns + CALL_NS, layout.TRACED_FLAG)
            job.now_ns = job.idle_ns = job.now_ns + STEP_NS
            queued_steps.waited(job.now_ns - STEP_NS, was_ready=False, owner=loop, is_ours=True)
        else:
            job.call(loop)
        if step % 50 == 49:
            job.wait()

    (record,) = job.read()

    assert record.queue is not None
    assert record.queue.waits == 4
    assert record.queue.steps_per_wait == pytest.approx(50, rel=0.1)


def test_reading_the_value_of_the_step_before_leaves_a_step_as_long_as_a_traced_one(
    job: Job,
) -> None:
    """The device computes while Python does something else: of a cycle only the rest is a gap."""
    loop = job.loop()
    before_ns = job.now_ns
    for step in range(100):
        job.work(4_000_000)
        if step == 50:
            job.now_ns = max(job.now_ns, job.idle_ns)
            loop.record(job.now_ns, job.now_ns + STEP_NS, layout.TRACED_FLAG)
            job.now_ns = job.idle_ns = job.now_ns + STEP_NS
            queued_steps.waited(job.now_ns, was_ready=True, owner=loop, is_ours=True)
        else:
            job.call(loop)
        began_ns, was_ready = job.now_ns, job.now_ns >= before_ns
        job.now_ns = max(job.now_ns, before_ns)
        queued_steps.waited(began_ns, was_ready)
        before_ns = job.idle_ns

    (record,) = job.read()

    assert np.median(record.recent.end_ns - record.recent.start_ns) == STEP_NS
    assert record.gaps.sum_ns < 0.05 * record.times.sum_ns


def test_a_value_that_was_there_leaves_a_step_as_long_as_a_traced_one(job: Job) -> None:
    """The program does more than the device, and waits for nothing."""
    loop = job.loop()
    for step in range(100):
        if step == 50:
            loop.record(job.now_ns, job.now_ns + STEP_NS, layout.TRACED_FLAG)
            job.now_ns = job.idle_ns = job.now_ns + STEP_NS
            queued_steps.waited(job.now_ns, was_ready=True, owner=loop, is_ours=True)
        else:
            job.call(loop)
        job.work(3 * STEP_NS)
        if step % 10 == 9:
            job.wait()

    (record,) = job.read()

    assert record.times.sum_ns == pytest.approx(100 * STEP_NS, rel=0.05)


@pytest.mark.parametrize("steps", [100, 20_000])
def test_a_step_that_is_waited_for_does_not_last_as_long_as_a_slow_trace(
    job: Job, steps: int
) -> None:
    """A trace doubled a short step; the program waits for each, and then does something."""
    loop = job.loop()
    loop.drained_ns = 2 * STEP_NS
    for step in range(steps):
        if step % 500 == 20:
            loop.record(job.now_ns, job.now_ns + CALL_NS, layout.TRACED_FLAG)
            job.now_ns = job.idle_ns = job.now_ns + 2 * STEP_NS
            queued_steps.waited(job.now_ns, was_ready=False, owner=loop, is_ours=True)
        else:
            job.call(loop)
            job.wait()
        job.work(3 * STEP_NS)

    (record,) = job.read()

    assert record.times.sum_ns == pytest.approx(steps * STEP_NS, rel=0.02)
    assert record.gaps.sum_ns == pytest.approx((steps - 1) * 3 * STEP_NS, rel=0.02)


def test_the_waits_of_traced_steps_alone_say_nothing_of_a_loop(job: Job) -> None:
    """Its steps are queued within those of another loop, or their values are read unseen."""
    loop = job.loop()
    for step in range(100):
        if step % 30 == 10:
            loop.record(job.now_ns, job.now_ns + CALL_NS, layout.TRACED_FLAG)
            job.now_ns = job.idle_ns = job.now_ns + STEP_NS
            queued_steps.waited(job.now_ns - STEP_NS, was_ready=False, owner=loop, is_ours=True)
        else:
            job.call(loop)

    (record,) = job.read()

    assert record.executed == 100
    assert isinstance(unknown_times(record), Missing)


def test_a_loop_without_room_of_its_own_is_not_marked(job: Job) -> None:
    """Several threads write its block."""
    loop = SimpleNamespace(shared=object(), index=3)

    queued_steps.enroll(job.current, loop)

    assert job.current.queued == []


def test_a_watch_that_has_ended_meanwhile_notes_no_wait() -> None:
    """Another thread, or the exit, may end it after the wrapper of the wait has looked."""
    gaps = load("core.gaps")

    assert gaps.waited.__wrapped__(SimpleNamespace(watch=None), 1_000, True) is None
