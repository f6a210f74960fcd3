"""Steps of a program that only queues them end when the device has run them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.support.profiles import Step, op, profile, timed_loop
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.device_queue import with_device_times, with_usual_times
from tfprobe.profile.profile import Loop, Profile

MS = 1_000_000


@dataclass
class Program:
    """A program and its device: `call_ns` of each step on the host, `device_ns` on the device.

    It waits for the device at the end of the steps in `waits`, within the step or in the gap after
    it; `extra_ns` is what a step does besides. The host goes at most `most_queued` steps ahead.
    """

    call_ns: int
    device_ns: int
    steps: int = 100
    waits: Sequence[int] = ()
    waits_in_gap: bool = False
    gap_ns: int = 0
    most_queued: int = 10**6
    extra_ns: dict[int, int] = field(default_factory=dict)
    done_ns: list[int] = field(default_factory=list)

    def loop(self, **changes: object) -> Loop:
        """Return what is recorded of it, and note when the device was done with each step."""
        now, free, starts, ends = 0, 0, [], []
        self.done_ns = []
        for step in range(self.steps):
            starts.append(now)
            if step >= self.most_queued:
                now = max(now, self.done_ns[step - self.most_queued])
            free = max(free, now) + self.device_ns
            self.done_ns.append(free)
            now += self.call_ns + self.extra_ns.get(step, 0)
            if step in self.waits and not self.waits_in_gap:
                now = max(now, free)
            ends.append(now)
            if step in self.waits and self.waits_in_gap:
                now = max(now, free)
            now += self.gap_ns
        steps_ns = [end - start for start, end in zip(starts, ends, strict=True)]
        gaps_ns = [0, *(start - end for end, start in zip(ends, starts[1:], strict=False))]
        return timed_loop(steps_ns, gaps_ns, kind="optimizer_step", start_ns=0, **changes)

    def told(self, busy_ns: int | None = None, **changes: object) -> Loop:
        """Return its loop where a traced step kept the device busy for `busy_ns`."""
        busy_us = (busy_ns or self.device_ns) // 1000
        seen = traced(busy_us)
        ((loop,), _) = with_device_times(
            (self.loop(**changes),), seen.captures, seen.executions, of_pytorch=seen.captures
        )
        return loop


def traced(*busy_us: int) -> Profile:
    """Return traced steps of a loop in which a kernel ran so long."""
    rows = [
        [op("aten::mm", 0, 5), op("gemm", 10, each, Place.ACCELERATOR)] if each else []
        for each in busy_us
    ]
    return profile([Step(each) for each in rows])


def lengths_ms(loop: Loop) -> list[float]:
    return ((loop.recent.end_ns - loop.recent.start_ns) / MS).tolist()


def test_a_step_takes_what_the_device_needs() -> None:
    """The host runs ahead of it and waits for it at every tenth step."""
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10))

    loop = program.told()

    assert lengths_ms(loop) == pytest.approx([4.0] * 100, abs=0.001)
    assert loop.recent.end_ns.tolist() == pytest.approx(program.done_ns, abs=1000)
    assert loop.times.count == 100
    assert loop.times.sum_ns == pytest.approx(400 * MS, rel=1e-5)
    assert loop.queue is not None
    assert (loop.queue.unfinished, loop.queue.steps_per_wait) == (0, 10.0)


@pytest.mark.parametrize("error", [0.93, 0.97, 1.03, 1.07])
def test_a_device_that_is_faster_or_slower_in_traced_steps_changes_nothing(error: float) -> None:
    """Clocks change with the load: the time between two waits counts, not that of one step."""
    program = Program(call_ns=1 * MS, device_ns=4 * MS, steps=500, waits=range(49, 500, 50))

    loop = program.told(int(4 * MS * error))

    assert lengths_ms(loop) == pytest.approx([4.0] * 500, abs=0.001)


def test_a_wait_between_steps_belongs_to_the_steps() -> None:
    """`torch.cuda.synchronize()` behind a call of a module; the gap is Python alone."""
    program = Program(
        call_ns=200_000, device_ns=6 * MS, waits=range(100), waits_in_gap=True, gap_ns=100_000
    )

    loop = program.told()

    assert lengths_ms(loop) == pytest.approx([6.0] * 99, abs=0.001)
    assert loop.gaps.max_ns == 100_000
    assert loop.queue is not None
    assert loop.queue.exposed_ratio == pytest.approx(0.1 / 5.9, rel=0.02)


def test_waits_in_some_gaps_are_spread_as_well() -> None:
    """All steps since the last wait were queued by then."""
    program = Program(
        call_ns=200_000, device_ns=6 * MS, waits=range(19, 100, 20), waits_in_gap=True, gap_ns=5000
    )

    loop = program.told(int(5.8 * MS))

    assert lengths_ms(loop)[:80] == pytest.approx([6.0] * 80, rel=0.002)


@pytest.mark.parametrize(
    "program",
    [
        Program(call_ns=4 * MS, device_ns=1 * MS),
        Program(call_ns=4 * MS, device_ns=1 * MS, gap_ns=2 * MS),
        Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(100)),
    ],
    ids=["slow host", "slow Python between steps", "waits within each step"],
)
def test_steps_that_are_over_when_calls_return_are_left_alone(program: Program) -> None:
    """There is nothing to spread."""
    recorded = program.loop()

    assert lengths_ms(program.told()) == lengths_ms(recorded)
    assert program.told().queue is None


def test_a_step_that_does_something_else_stays_the_slow_one() -> None:
    """A checkpoint of a second outlasts all that is queued; the device is idle meanwhile."""
    program = Program(
        call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10), extra_ns={44: 1000 * MS}
    )

    times = lengths_ms(program.told())

    assert times[44] > 950
    assert times[:44] + times[45:] == pytest.approx([4.0] * 99, rel=0.02)


def test_a_short_delay_behind_the_device_costs_nothing() -> None:
    """The device has enough to do meanwhile."""
    program = Program(
        call_ns=1 * MS, device_ns=4 * MS, waits=range(19, 100, 20), extra_ns={14: 10 * MS}
    )

    assert lengths_ms(program.told()) == pytest.approx([4.0] * 100, abs=0.001)


def test_steps_after_the_last_wait_have_no_times() -> None:
    """Nobody knows when they were over."""
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 90, 10))

    loop = program.told()

    assert loop.queue is not None
    assert loop.queue.unfinished == 10
    assert len(loop.recent.start_ns) == loop.times.count == 90
    assert loop.is_remembered


def test_a_program_that_never_waits_has_no_times() -> None:
    """Its calls say nothing of its steps."""
    loop = Program(call_ns=1 * MS, device_ns=4 * MS).told()

    assert loop.queue is not None
    assert loop.queue.unfinished == loop.executed
    assert (loop.times.count, len(loop.recent.start_ns)) == (0, 0)


def test_a_full_queue_times_the_calls() -> None:
    """Where a call waits for a place in the queue, it takes as long as the device."""
    program = Program(call_ns=1 * MS, device_ns=4 * MS, steps=400, most_queued=5)

    loop = program.told()

    assert lengths_ms(loop)[10:] == pytest.approx([4.0] * 390, rel=0.001)


def test_a_traced_step_is_waited_for_on_both_sides() -> None:
    """tfprobe lets the device finish before and after it."""
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=(19, 20, 59, 60, 99))

    loop = program.told(sampled=[20, 60])

    assert loop.recent.waited[[19, 20, 59, 60]].all()
    assert lengths_ms(loop) == pytest.approx([4.0] * 100, abs=0.01)
    assert loop.queue is not None
    assert loop.queue.unfinished == 0


def test_of_forgotten_steps_the_sums_remain() -> None:
    """The ring holds the latest; sums and counts are those of all steps."""
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10))
    recorded = program.loop()
    long = replace(
        recorded,
        executed=1000,
        recent=replace(recorded.recent, first_step=900),
        times=replace(recorded.times, count=1000, sum_ns=4000 * MS),
        gaps=replace(recorded.gaps, count=999),
    )
    seen = traced(4000)

    ((loop,), _) = with_device_times(
        (long,), seen.captures, seen.executions, of_pytorch=seen.captures
    )

    assert loop.times.count == 1000
    assert loop.times.sum_ns == pytest.approx(4000 * MS, rel=1e-5)
    assert int(loop.times.buckets.sum()) == 1000
    assert loop.recent.first_step == 900


@pytest.mark.parametrize("why", ["another framework", "no kernel", "no traced step"])
def test_without_a_device_nothing_changes(why: str) -> None:
    """A CPU is done when the call returns."""
    recorded = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10)).loop()
    seen = traced() if why == "no traced step" else traced(0 if why == "no kernel" else 4000)
    of_pytorch = () if why == "another framework" else seen.captures

    loops, captures = with_device_times(
        (recorded,), seen.captures, seen.executions, of_pytorch=of_pytorch
    )

    assert loops[0] is recorded
    assert captures == seen.captures


def test_kernels_of_several_streams_are_busy_once() -> None:
    """A copy beside a kernel takes no time of its own."""
    rows = [op("gemm", 0, 3000, Place.ACCELERATOR), op("copy", 1000, 3000, Place.HOST_TO_DEVICE)]
    seen = profile([Step(rows)])
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10))

    ((loop,), _) = with_device_times(
        (program.loop(),), seen.captures, seen.executions, of_pytorch=seen.captures
    )

    assert lengths_ms(loop) == pytest.approx([4.0] * 100, abs=0.001)


def test_the_newest_traced_steps_count() -> None:
    """A first one may also load libraries."""
    seen = traced(90_000, 80_000, 4000, 4000, 4000)
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10))

    ((loop,), _) = with_device_times(
        (program.loop(),), seen.captures, seen.executions, of_pytorch=seen.captures
    )

    assert lengths_ms(loop) == pytest.approx([4.0] * 100, abs=0.001)


def test_a_traced_step_is_compared_with_the_usual_cycle() -> None:
    """Not with a call, which is a quarter of it here."""
    seen = traced(4000)
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10))

    loops, (capture,) = with_device_times(
        (program.loop(),), seen.captures, seen.executions, of_pytorch=seen.captures
    )

    assert capture.plain_ns == pytest.approx(4 * MS, abs=1000)
    (other,) = with_usual_times(loops, seen.captures)
    assert other.plain_ns == pytest.approx(4 * MS, abs=1000)


def test_a_loop_without_a_queue_says_nothing_of_the_usual() -> None:
    """Then the agent has said it, or nobody knows it."""
    seen = traced(4000)

    (capture,) = with_usual_times((Program(4 * MS, 1 * MS).loop(),), seen.captures)

    assert isinstance(capture.plain_ns, Missing)


def test_damaged_times_do_no_harm() -> None:
    """Ends before starts, and steps out of order."""
    recorded = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10)).loop()
    start_ns = recorded.recent.start_ns.copy()
    start_ns[40:] = start_ns[40:][::-1]
    broken = replace(recorded, recent=replace(recorded.recent, start_ns=start_ns))
    seen = traced(4000)

    ((loop,), _) = with_device_times(
        (broken,), seen.captures, seen.executions, of_pytorch=seen.captures
    )

    assert loop.times.count + (loop.queue.unfinished if loop.queue else 0) == 100


def in_turn(
    kinds: Sequence[int], device_ns: Sequence[int], waits: Sequence[int], call_ns: int = MS
) -> tuple[list[Loop], list[list[int]]]:
    """Return loops whose steps share a thread and a queue, and when each step was done.

    `kinds` says which loop each step is of; the host waits at the end of the steps in `waits`.
    """
    now, free = 0, 0
    spans: list[list[tuple[int, int]]] = [[] for _ in device_ns]
    done: list[list[int]] = [[] for _ in device_ns]
    for at, kind in enumerate(kinds):
        start, now = now, now + call_ns
        free = max(free, start) + device_ns[kind]
        done[kind].append(free)
        if at in waits:
            now = max(now, free)
        spans[kind].append((start, now))
    loops = []
    for index, own in enumerate(spans):
        steps = [end - start for start, end in own]
        gaps = [0, *(start - end for (_, end), (start, _) in itertools.pairwise(own))]
        loops.append(
            timed_loop(steps, gaps, kind="optimizer_step", index=index, start_ns=own[0][0])
        )
    return loops, done


def told_of(loops: Sequence[Loop], *busy_us: int) -> tuple[Loop, ...]:
    """Return loops of which traced steps kept the device busy so long."""
    steps = [
        Step([op("aten::mm", 0, 5), op("gemm", 10, each, Place.ACCELERATOR)], loop=at)
        for at, each in enumerate(busy_us)
    ]
    seen = profile(steps)
    told, _ = with_device_times(loops, seen.captures, seen.executions, of_pytorch=seen.captures)
    return told


def test_two_optimizers_in_turn_share_the_device() -> None:
    """As of a generator and a discriminator: neither is slow where the program waits for both."""
    loops, done = in_turn([0, 1] * 50, (4 * MS, 2 * MS), range(19, 100, 20))

    told = told_of(loops, 4000, 2000)

    assert lengths_ms(told[0]) == pytest.approx([4.0] * 50, abs=0.001)
    assert lengths_ms(told[1]) == pytest.approx([2.0] * 50, abs=0.001)
    for loop, true in zip(told, done, strict=True):
        assert loop.recent.end_ns.tolist() == pytest.approx(true, abs=1000)


def test_evaluation_after_training_has_its_own_time() -> None:
    """Forty steps of each, and one wait behind both."""
    kinds = [0] * 40 + [1] * 40
    loops, _ = in_turn(kinds * 2, (4 * MS, 1 * MS), (79, 159), call_ns=MS // 2)

    told = told_of(loops, 4000, 1000)

    assert lengths_ms(told[0]) == pytest.approx([4.0] * 80, abs=0.001)
    assert lengths_ms(told[1]) == pytest.approx([1.0] * 80, abs=0.001)


def test_loops_of_two_threads_have_queues_of_their_own() -> None:
    """Nothing says in which order the device runs what they queue."""
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10))
    loops = [program.loop(index=0), program.loop(index=1, thread="Thread-1")]

    told = told_of(loops, 4000, 4000)

    for loop in told:
        assert lengths_ms(loop) == pytest.approx([4.0] * 100, abs=0.001)


def test_steps_within_steps_are_timed_apart() -> None:
    """Two loops of one name of a thread, of threads that followed each other."""
    program = Program(call_ns=1 * MS, device_ns=4 * MS, waits=range(9, 100, 10))
    loops = [program.loop(index=0), program.loop(index=1)]

    told = told_of(loops, 4000, 4000)

    for loop in told:
        assert lengths_ms(loop) == pytest.approx([4.0] * 100, abs=0.001)
