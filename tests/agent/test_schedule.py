"""Which steps are traced: chosen ones, every Nth, within a time budget, or on request."""

from __future__ import annotations

import itertools
import math
import random
import time
from types import SimpleNamespace

import pytest

from tests.support.agent import Laboratory, load
from tfprobe.runs.trace_requests import request_samples, request_status

schedule, layout = load("core.schedule"), load("core.steps_layout")
MS = 1_000_000


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * MS

    def monotonic_ns(self) -> int:
        return self.now_ns


class Loop:
    """A loop that only takes time."""

    def __init__(self, step_ns: int, index: int = 0) -> None:
        self.index = index
        self.step_ns = step_ns
        self.n = 0
        self.next_check = 0
        self.next_trace = 0
        self.kind = "fit"
        self.declined = None, 0, 0
        self.latest_end = layout.NEVER
        self.traced_steps = 0
        self.last_traced = -1
        self.cost_ns = 0
        self.cost_step_ns = 0

    def trace_at(self, step: int) -> None:
        self.next_check = self.next_trace = step

    def latest_end_ns(self) -> int:
        return self.latest_end

    def latest_ns(self) -> int:
        return self.step_ns if self.n else 0

    def pace_ns(self) -> int | None:
        return self.step_ns if self.n else None

    def usual_ns(self) -> int | None:
        return self.pace_ns()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The agent's clock, stopped."""
    clock = Clock()
    monkeypatch.setattr(schedule, "UNPATCHED", clock)
    return clock


def _schedule(clock: Clock, **config: object):
    settings = {"steps": None, "every": None, "budget": 0.01, "trace_level": "full", **config}
    return schedule.Schedule(SimpleNamespace(**settings), clock.now_ns)


def _step(plan, clock: Clock, loop: Loop, cost_ns: int = 0) -> str | None:
    """Do what a step wrapper does at one step; return why it was traced."""
    why = plan.reason(loop) if loop.n >= loop.next_check else None
    clock.now_ns += loop.step_ns + (cost_ns if why else 0)
    loop.n += 1
    if why:
        plan.taken(loop, cost_ns, plan.sequence if why == "request" else None)
    return why


def _traced_steps(plan, clock: Clock, loop: Loop, count: int, cost_ns: int = 0) -> list[int]:
    loop.next_check = plan.first_trace(loop)
    return [step for step in range(count) if _step(plan, clock, loop, cost_ns)]


def test_chosen_steps_are_traced_and_no_others(clock) -> None:
    """Both ends of a range count; ranges may overlap and come in any order."""
    plan = _schedule(clock, steps=((50, 50), (10, 12), (11, 14), (0, 0)))

    assert _traced_steps(plan, clock, Loop(MS), 200) == [0, 10, 11, 12, 13, 14, 50]


@pytest.mark.parametrize("every", [1, 2, 7])
def test_every_nth_step_is_traced(clock, every) -> None:
    """Steps N-1, 2N-1, ..."""
    plan = _schedule(clock, every=every)

    assert _traced_steps(plan, clock, Loop(MS), 30) == list(range(every - 1, 30, every))


@pytest.mark.parametrize("steps", [None, ((3, 5),)])
def test_trace_level_off_traces_nothing(clock, steps) -> None:
    """Counting needs no trace."""
    plan = _schedule(clock, steps=steps, trace_level="off")

    assert _traced_steps(plan, clock, Loop(MS), 1000) == []


@pytest.mark.parametrize(("step_ms", "first"), [(1, 5), (99, 5), (150, 2), (3000, 2)])
def test_the_first_trace_skips_the_warm_up(clock, step_ms, first) -> None:
    """Slow steps are few, so the third of them is taken already."""
    plan = _schedule(clock)

    assert _traced_steps(plan, clock, Loop(step_ms * MS), 10, cost_ns=MS)[0] == first


def test_a_job_of_a_few_hundred_steps_has_more_than_one_trace(clock) -> None:
    """If the budget allows it: 300 steps of 20 ms, traces of 10 ms."""
    plan = _schedule(clock)

    assert len(_traced_steps(plan, clock, Loop(20 * MS), 300, cost_ns=10 * MS)) >= 2


@pytest.mark.parametrize("is_rank", [False, True], ids=["alone", "rank"])
@pytest.mark.parametrize("seed", range(12))
def test_the_budget_holds(clock, seed, is_rank) -> None:
    """The first trace of a loop comes whatever it costs, the second within three budgets.

    Each later one leaves all tracing so far within the budget.
    """
    dice = random.Random(seed)
    budget = dice.choice([0.002, 0.01, 0.05])
    plan = _schedule(clock, budget=budget)
    plan.is_rank = is_rank
    loops = [Loop(int(10 ** dice.uniform(6, 7)), index) for index in range(dice.randint(1, 4))]
    costs = [int(10 ** dice.uniform(7.5, 9)) for _ in loops]
    for loop in loops:
        loop.next_check = plan.first_trace(loop)
    began_ns = clock.now_ns
    spent_ns = 0

    for _ in range(20_000):
        loop = dice.choice(loops)
        cost_ns = int(costs[loop.index] * dice.uniform(0.8, 1.2))
        dearer_ns = max(0, cost_ns - loop.cost_ns)  # more than the last one: not to be known before
        if _step(plan, clock, loop, cost_ns):
            spent_ns += cost_ns
            budgets = {1: math.inf, 2: 3}.get(loop.traced_steps, 1)
            assert spent_ns <= budgets * budget * (clock.now_ns - began_ns) + dearer_ns

    assert spent_ns == plan.spent_ns
    assert all(loop.traced_steps for loop in loops)


@pytest.mark.parametrize(("step_ms", "cost_ms"), [(2, 5), (20, 20), (100, 15), (300, 10)])
def test_a_loop_of_three_seconds_has_four_traces(clock, step_ms, cost_ms) -> None:
    """If the budget allows them: importing TensorFlow took five seconds of the job's time."""
    plan, loop = _schedule(clock), Loop(step_ms * MS)
    began_ns = clock.now_ns
    clock.now_ns += 5_000 * MS

    traced = _traced_steps(plan, clock, loop, 3_000 // step_ms, cost_ms * MS)

    assert len(traced) >= 4
    assert plan.spent_ns <= 0.01 * (clock.now_ns - began_ns) + cost_ms * MS


@pytest.mark.parametrize("kind", ["fit", "predict"])
def test_the_main_loop_gets_its_traces_first(clock, kind) -> None:
    """Another loop has one trace and waits, unless it is the one that takes the time."""
    plan = _schedule(clock, budget=0.001)
    main, other = Loop(10 * MS), Loop(8 * MS, 1)
    main.kind, other.kind = "fit", kind
    if kind == "predict":
        other.step_ns = 12 * MS  # longer than the training: still none
    plan.loops = (main, other)
    for loop in plan.loops:
        loop.next_check = plan.first_trace(loop)

    while main.traced_steps < schedule.MAIN_TRACES:
        assert other.traced_steps <= 1
        for loop in plan.loops:
            _step(plan, clock, loop, cost_ns=10 * MS)

    assert other.traced_steps == 1


@pytest.mark.parametrize("ended", [True, False])
def test_a_main_loop_that_cannot_be_traced_or_has_ended_delays_nobody(clock, ended) -> None:
    """Its own profiler may run, or it was the first of several."""
    plan = _schedule(clock)
    main, other = Loop(10 * MS), Loop(MS, 1)
    main.n = 10_000
    plan.loops = (main, other)
    if ended:
        main.latest_end = clock.now_ns - 100_000 * MS
    else:
        main.declined = "TF_DISABLE_PROFILING is set", 1, 1

    assert len(_traced_steps(plan, clock, other, 50_000, cost_ns=5 * MS)) >= 4


def test_traces_spread_over_the_life_of_a_job(clock) -> None:
    """If traces cost nothing, each is at least a quarter later than the one before."""
    traced = _traced_steps(_schedule(clock), clock, Loop(MS), 100_000, cost_ns=1)

    assert all(later >= 1.25 * earlier for earlier, later in itertools.pairwise(traced[1:]))
    assert traced[-1] > 70_000


def _common_steps(clock: Clock, seed: int) -> tuple[int, int]:
    """How many traced steps four ranks have in common, and how many the one with the most has."""
    dice = random.Random(seed)
    step_ns, cost_ns = int(10 ** dice.uniform(6, 8)), int(10 ** dice.uniform(7, 8.5))
    traced = []
    for _ in range(4):
        plan = _schedule(clock)
        plan.is_rank = True
        loop = Loop(int(step_ns * dice.uniform(0.98, 1.02)))
        traced.append(
            _traced_steps(plan, clock, loop, 3_000, int(cost_ns * dice.uniform(0.8, 1.2)))
        )
    return len(set.intersection(*map(set, traced))), max(map(len, traced))


def test_ranks_mostly_trace_the_same_steps(clock) -> None:
    """Their steps take the same time, because they wait for each other; their traces do not."""
    common = [_common_steps(clock, seed) for seed in range(10)]

    assert sum(shared for shared, _ in common) >= 0.5 * sum(most for _, most in common)


def test_ranks_have_as_many_traces_of_a_short_job(clock) -> None:
    """The fixed steps of ranks cost a job of a few hundred none of its traces."""
    alone, rank = _schedule(clock), _schedule(clock)
    rank.is_rank = True

    counts = [
        len(_traced_steps(plan, clock, Loop(20 * MS), 300, cost_ns=5 * MS))
        for plan in (alone, rank)
    ]

    assert counts[1] >= counts[0] - 1 >= 2


def test_a_trace_request_reaches_a_rank_at_any_step(clock) -> None:
    """Requested steps are the next ones."""
    plan, loop = _schedule(clock), Loop(MS)
    plan.is_rank = True
    loop.n = 1000
    plan.request(2, -1, 7)

    assert [_step(plan, clock, loop) for _ in range(3)] == ["request", "request", None]


def test_a_loop_of_little_weight_waits_for_the_budget(clock) -> None:
    """A step that takes less than 1 % of the time is no reason to overdraw."""
    plan = _schedule(clock)
    small, large = Loop(1000), Loop(10 * MS, 1)
    for loop in (small, large):
        loop.next_check = plan.first_trace(loop)
    large.next_check = schedule.NEVER

    traced_ns = next(
        clock.now_ns
        for _ in itertools.count()
        if (_step(plan, clock, large) or True) and _step(plan, clock, small, cost_ns=20 * MS)
    )

    assert traced_ns - 1_000 * MS >= 20 * MS / 0.01


def test_a_declined_step_is_tried_again_later(clock) -> None:
    """Soon if steps were chosen, after a pause if a budget chooses."""
    chosen, free = _schedule(clock, steps=((5, 100),)), _schedule(clock)
    first, second = Loop(MS), Loop(MS)
    first.n = second.n = 40

    chosen.declined(first)
    free.declined(second)

    assert first.next_check == 41
    assert second.next_check >= 56


def test_a_request_is_taken_first_and_ends(clock) -> None:
    """Three steps of the loop it names, whatever else was configured."""
    plan = _schedule(clock, steps=((50, 50),))
    other, wanted = Loop(MS, 0), Loop(MS, 1)
    plan.request(3, 1, 7)

    reasons = [(plan.reason(other), _step(plan, clock, wanted)) for _ in range(10)]

    assert [why for _, why in reasons] == ["request"] * 3 + [None] * 7
    assert {why for why, _ in reasons} == {None}
    assert wanted.next_check == 50


STEPPING = """
step = def_function.Function()
n = 0
while True:
    session.run("loss")
    step(1)
    n += 1
    if not n % 200:
        os.write(1, b".")
        time.sleep(0.001)
"""


def test_a_running_job_takes_trace_requests(laboratory: Laboratory) -> None:
    """The request is seen, the steps are traced; garbage and a second writer do no harm."""
    laboratory.arm(steps=[[0, 0]])
    job = laboratory.start(STEPPING)
    try:
        assert job.stdout is not None
        assert job.stdout.read(1) == b"."
        (folder,) = laboratory.folders()
        file = folder / "steps.bin"

        sequence = request_samples(file, samples=4, loop=1)
        _wait(lambda: request_status(file).seen == sequence and not request_status(file).left)
        with file.open("r+b") as words:
            for samples, loop in [(0, -1), (-5, -1), (1 << 40, 0), (2, 250), (2, -2)]:
                words.seek(layout.REQUEST_STEPS * layout.WORD)
                words.write(samples.to_bytes(8, "little", signed=True))
                words.write(loop.to_bytes(8, "little", signed=True))
                words.seek(layout.REQUEST * layout.WORD)
                words.write((sequence := sequence + 1).to_bytes(8, "little", signed=True))
                words.flush()
                _wait(lambda now=sequence: request_status(file).seen == now)
        request_samples(file, samples=1_000_000, loop=0)
        sequence = request_samples(file, samples=3)
        _wait(lambda: request_status(file).seen == sequence and not request_status(file).left)
        # A step is taken from those that are due before its event is written.
        counted = sum(laboratory.counts(folder).values())
        _wait(lambda: sum(laboratory.counts(folder).values()) > counted + 2)
    finally:
        job.kill()
        job.communicate()

    loops = laboratory.steps().loops
    requested = [event for event in laboratory.events() if event.get("why") == "request"]
    assert sum(event["work"] == 1 for event in requested) >= 4
    assert sum(loop.sampled for loop in loops) == 2 + len(requested)
    refused = [e for e in laboratory.events() if e.get("why") == "unreadable control word"]
    assert len(refused) == 5


def test_a_request_that_cannot_be_met_does_not_fill_the_disk(laboratory: Laboratory) -> None:
    """A job that may not be traced writes that now and then, not at every step."""
    laboratory.arm(steps=[[0, 10**9]])

    laboratory.finish("""
os.environ["TF_DISABLE_PROFILING"] = "1"
step = def_function.Function()
for _ in range(5000): step(1)
""")

    declined = laboratory.events(kind="declined")
    assert 1 <= len(declined) <= 20
    assert sum(event["times"] for event in declined) == 5000
    assert declined[0]["why"] == "TF_DISABLE_PROFILING is set"


def _wait(happened) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_steps_that_become_slower_are_asked_about_in_time(clock: Clock) -> None:
    """By the first of them, the next trace would be due after as many steps as would take days."""
    plan, loop = _schedule(clock), Loop(2 * MS)
    traced = []
    for step in range(400):
        if step == 40:
            loop.step_ns = 100 * MS
        if _step(plan, clock, loop, cost_ns=20 * MS if step < 40 else 100 * MS):
            traced.append(step)

    assert traced[0] == 5
    assert 40 < traced[1] < 500


def test_a_trace_of_longer_steps_is_expected_to_cost_more(clock: Clock) -> None:
    """As many times more as they are longer than the traced one."""
    plan, loop = _schedule(clock), Loop(2 * MS)
    spent_ns = 0
    for step in range(400):
        if step == 40:
            loop.step_ns = 100 * MS
        cost_ns = 10 * loop.step_ns
        if _step(plan, clock, loop, cost_ns=cost_ns) and step > 5:
            spent_ns += cost_ns
            assert spent_ns < schedule.EARLY_OVERDRAFT * 0.01 * (clock.now_ns - plan.started_ns)

    assert spent_ns
