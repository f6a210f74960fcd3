"""The account of a process: every moment in one category, from exec to exit."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.profiles import HOOKS, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.analysis.account.account import Account, merge_accounts, process_accounts
from tfprobe.analysis.account.categories import Category
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity, Call, Gap
from tfprobe.profile.profile import Loop, RecentSteps, StepQueue
from tfprobe.report.documents.account_document import account_document

MS = 1_000_000
S = 1_000_000_000
SHIFT_NS = UNIX_NS - MONO_NS
NO_COST = replace(HOOKS, calls_measured=0, measured_ns=0, fold_ns=0, once_ns=0, traced_ns=0)


def account(loops: list[Loop], wall_ns: int = 60 * S, cost: Any = NO_COST, **facts: Any) -> Account:
    """Return the account of one process that began at UNIX_NS."""
    role = facts.pop("role", None)
    exec_ns = facts.pop("exec_ns", UNIX_NS)
    one = process(
        unix_minus_monotonic_ns=SHIFT_NS,
        hooks=replace(cost, wall_ns=wall_ns),
        exec_ns=exec_ns,
        role=role,
    )
    (found,) = process_accounts(profile(loops=loops, processes=[one], **facts))
    assert isinstance(found, Account)
    assert sum(part.ns for part in found.parts) == found.wall_ns
    assert all(part.ns >= 0 for part in found.parts)
    return found


def activity(kind: str, start_ns: int, end_ns: int, name: str = "x", **facts: Any) -> Activity:
    """Return one that is told from the start of the process."""
    times = UNIX_NS + start_ns, UNIX_NS + end_ns
    return Activity(0, kind, name, "MainThread", *times, 1, end_ns - start_ns, **facts)


def seconds(found: Account) -> dict[str, float]:
    """Return the categories that are there."""
    return {part.category.value: part.ns / S for part in found.parts if part.ns}


def items(found: Account, category: Category) -> dict[str, float]:
    """Return what a category went to, in seconds."""
    part = next(each for each in found.parts if each.category is category)
    return {f"{item.what} {item.source}".strip(): item.ns / S for item in part.items}


def call(function: str, self_ns: int, line: int, parent: int | None = 0) -> Call:
    """Return a call that code of the job made."""
    return Call(parent, function, "/job/train.py", 1, line, False, 1, self_ns)


def test_a_life_from_exec_to_exit():
    """Starting Python, imports, preparation, a traced first step, steps, and the end."""
    fit = timed_loop([2 * S] + [100 * MS] * 100, 0, start_ns=MONO_NS + 10 * S, kind="fit")

    found = account(
        [fit], 30 * S, activities=(activity("import", S, 4 * S), activity("build", 5 * S, 6 * S))
    )

    assert seconds(found) == {
        "imports": 3.0,
        "preparation": 7.0,
        "compile": 2.0,
        "productive": 10.0,
        "idle": 8.0,
    }
    assert items(found, Category.PREPARATION) == {"before the first step": 6.0, "x": 1.0}
    assert found.goodput_ratio == 1 / 3
    assert found.steps == 101


def test_the_start_of_python_comes_before_everything():
    """What the kernel noted is earlier than what the agent saw."""
    fit = timed_loop([100 * MS] * 50, 0, start_ns=MONO_NS + 2 * S, kind="fit")

    found = account([fit], 10 * S, exec_ns=UNIX_NS - S // 2)

    assert seconds(found)["interpreter_start"] == 0.5
    assert found.wall_ns == 10 * S + S // 2


def test_the_ends_of_epochs_have_a_name():
    """A long gap that holds the callbacks at the end of an epoch."""
    gaps = np.full(40, 0)
    gaps[20] = 2 * S
    fit = timed_loop([100 * MS] * 40, gaps, start_ns=MONO_NS, kind="fit")
    at_ns = 20 * 100 * MS + S

    found = account(
        [fit],
        6 * S,
        activities=(activity("callbacks", at_ns, at_ns + 10 * MS, "CallbackList.on_epoch_end"),),
    )

    assert seconds(found) == {"productive": 4.0, "callbacks": 0.01, "epoch_ends": 1.99}


@pytest.mark.parametrize(("prepare_ms", "drawn"), [(6, "python_between_steps"), (1, "input_wait")])
def test_gaps_are_drawn_as_what_most_of_them_went_to(prepare_ms: int, drawn: str):
    """The strip says the same as the sums."""
    loop = timed_loop([MS] * 100, np.full(100, 10 * MS), start_ns=MONO_NS, kind="function")
    calls = (
        Call(None, "main", "/job/train.py", 1, 9, False, 1, 0),
        call("prepare", prepare_ms * MS, 12),
        call("next_batch", (10 - prepare_ms) * MS, 13),
    )
    watched = Gap(0, 0, 50, UNIX_NS + 50 * 11 * MS + MS, 10 * MS, 0, False, calls)

    strip = account([loop], 2 * S, gaps=(watched,)).strip

    assert strip is not None
    assert {each.value for each in strip.slices[:100]} == {drawn}


def test_usual_gaps_are_divided_by_the_watched_ones():
    """All gaps count, and each watched one only tells of what they consist."""
    gaps_ns = np.full(100, 10 * MS)
    loop = timed_loop([10 * MS] * 100, gaps_ns, start_ns=MONO_NS, kind="function")
    start_ns = UNIX_NS + 50 * 20 * MS + 10 * MS
    calls = (
        Call(None, "main", "/job/train.py", 1, 9, False, 1, 2 * MS),
        call("prepare", 6 * MS, 12),
        call("next_batch", 2 * MS, 13),
    )
    watched = Gap(0, 0, 50, start_ns, 10 * MS, 0, False, calls)

    found = account([loop], 2 * S, gaps=(watched,))

    assert seconds(found)["input_wait"] == pytest.approx(0.2, abs=0.01)
    assert items(found, Category.PYTHON)["prepare /job/train.py:12"] == pytest.approx(0.6, abs=0.02)
    assert "not_known" not in seconds(found)


def test_gaps_that_nobody_watched_are_not_known():
    """Nothing is guessed of them."""
    loop = timed_loop([10 * MS] * 100, 10 * MS, start_ns=MONO_NS, kind="function")

    found = account([loop], 2 * S)

    assert seconds(found)["not_known"] == pytest.approx(0.99, abs=0.02)


def test_a_long_gap_that_nothing_explains_is_not_known():
    """It is not smeared over the usual ones."""
    gaps = np.full(100, 0)
    gaps[50] = 3 * S
    loop = timed_loop([10 * MS] * 100, gaps, start_ns=MONO_NS, kind="function")

    found = account([loop], 4 * S)

    assert seconds(found) == {"productive": 1.0, "not_known": 3.0}


def test_a_long_gap_that_compilations_explain_together_is_compiling():
    """Tracing, lowering and XLA: none of them is most of it."""
    gaps = np.full(100, 0)
    gaps[50] = 3 * S
    loop = timed_loop([10 * MS] * 100, gaps, start_ns=MONO_NS, kind="jit")
    start_ns = 50 * 10 * MS + S
    activities = tuple(
        activity(kind, start_ns + number * 400 * MS, start_ns + (number + 1) * 400 * MS)
        for number, kind in enumerate(["trace", "lower", "xla"])
    )

    found = account([loop], 4 * S, activities=activities)

    assert seconds(found) == {"productive": 1.0, "compile": 3.0}


def test_a_long_gap_has_the_line_of_one_like_it():
    """One of several alike was watched."""
    gaps = np.full(100, 0)
    gaps[[30, 60, 90]] = 2 * S
    loop = timed_loop([10 * MS] * 100, gaps, start_ns=MONO_NS, kind="function")
    start_ns = UNIX_NS + 60 * 10 * MS + 2 * S
    calls = (Call(None, "main", "/job/train.py", 1, 9, False, 1, 0), call("plot", 2 * S, 40))

    found = account([loop], 7 * S, gaps=(Gap(0, 0, 59, start_ns, 2 * S, 0, False, calls),))

    assert items(found, Category.PYTHON) == {"plot /job/train.py:40": 6.0}


def test_recording_is_what_it_took_and_no_more():
    """The gap after a traced step is the job's beyond what the agent measured."""
    gaps = np.full(100, 10 * MS)
    gaps[51] = 110 * MS
    loop = timed_loop([10 * MS] * 100, gaps, start_ns=MONO_NS, kind="function")
    sampled = np.arange(100) == 50
    loop = replace(loop, sampled=1, recent=replace(loop.recent, sampled=sampled))

    found = account([loop], 3 * S, cost=replace(NO_COST, traced_ns=40 * MS))

    assert seconds(found)["recording"] == 0.04


def test_evaluation_beside_training_is_evaluation():
    """Its steps, and what else lies in the gap of which they are most."""
    gaps = np.full(40, 0)
    gaps[20] = 2 * S
    fit = timed_loop([100 * MS] * 40, gaps, start_ns=MONO_NS, kind="fit")
    evaluate = timed_loop(
        [100 * MS] * 10, 0, start_ns=MONO_NS + 2 * S + 500 * MS, index=1, kind="evaluate"
    )

    found = account([fit, evaluate], 6 * S)

    assert seconds(found)["evaluation"] == 2.0
    assert seconds(found)["productive"] == 4.0


def test_a_helper_thread_is_no_progress():
    """Its steps lie in the gaps of the main loop, and those stay what they are."""
    main = timed_loop([100 * MS] * 20, 100 * MS, start_ns=MONO_NS, kind="session_run")
    queue = timed_loop(
        [90 * MS] * 40, 10 * MS, start_ns=MONO_NS, index=1, name="queue/fifo_enqueue", thread="T-1"
    )

    found = account([main, queue], 5 * S)

    assert seconds(found)["productive"] == 2.0
    assert found.loop == ("session_run", "loss")


def test_what_runs_once_is_preparation():
    """The initialisation of variables, before the main loop."""
    main = timed_loop([10 * MS] * 100, 0, start_ns=MONO_NS + 5 * S, kind="session_run")
    init = timed_loop([3 * S], 0, start_ns=MONO_NS + S, index=1, kind="session_run")

    found = account([main, init], 6 * S)

    assert seconds(found) == {"preparation": 5.0, "productive": 1.0}


def test_forgotten_steps_count():
    """The ring holds the last steps; the sums of all are exact."""
    kept = timed_loop([10 * MS] * 100, 0, start_ns=MONO_NS + 9 * S, kind="fit")
    recent = kept.recent
    loop = replace(
        kept,
        executed=1000,
        times=replace(kept.times, count=1000, sum_ns=1000 * 10 * MS),
        recent=RecentSteps(900, recent.start_ns, recent.end_ns, recent.sampled, recent.raised),
        first_seen_ns=UNIX_NS,
    )

    found = account([loop], 10 * S)

    assert seconds(found) == {"productive": 10.0}


def test_a_process_without_steps_is_not_known():
    """But for its imports."""
    found = account([], 10 * S, activities=(activity("import", 0, 4 * S),))

    assert seconds(found) == {"imports": 4.0, "not_known": 6.0}


def test_a_parameter_server_waits_for_others():
    """It runs no step of its own."""
    found = account([], 10 * S, role="ps", activities=(activity("import", 0, 4 * S),))

    assert seconds(found) == {"imports": 4.0, "waiting_for_others": 6.0}


def test_a_recording_without_clock_has_no_account():
    """The reason is told, and no number."""
    one = process(hooks=replace(HOOKS, wall_ns=S))

    (found,) = process_accounts(profile(loops=[timed_loop([MS] * 10, 0)], processes=[one]))

    assert isinstance(found, Missing)
    assert account_document(found)["goodput_ratio"] is None
    assert "no times of its steps" in account_document(found)["missing"]


def test_processes_add_up():
    """The account of a run has the time of all its processes."""
    loop = timed_loop([100 * MS] * 20, 0, start_ns=MONO_NS, kind="fit")
    one, other = account([loop], 2 * S), account([loop], 4 * S)

    both = merge_accounts([one, other, Missing("no clock")])

    assert isinstance(both, Account)
    assert (both.wall_ns, both.processes, both.steps) == (6 * S, 2, 40)
    assert both.goodput_ratio == pytest.approx(4 / 6)


def test_ratios_of_a_document_sum_to_one():
    """Exactly, whatever the times are; the last part is what is not known."""
    loop = timed_loop([7 * MS] * 333, 3 * MS, start_ns=MONO_NS + S // 3, kind="fit")

    found = account([loop], 7 * S)
    told = account_document(found)

    assert sum(part["ratio"] for part in told["parts"]) == 1.0
    # Texts divide: both are then rounded to the same digits.
    assert [part["ratio"] for part in told["parts"]] == pytest.approx(
        [part.ns / found.wall_ns for part in found.parts], abs=1e-15
    )
    assert told["parts"][-1]["part"] == "not_known"
    assert {part["part"] for part in told["parts"]} == {each.value for each in Category}


def test_whatever_happens_every_moment_is_counted_once():
    """Steps of several threads, activities anywhere, a first step that is forgotten."""
    for seed in range(40):
        made = random.Random(seed)
        loops = []
        for index in range(made.randint(1, 4)):
            steps = [made.randint(1, 300) * MS for _ in range(made.randint(1, 60))]
            gaps = [made.randint(0, 400) * MS for _ in steps]
            loops.append(
                timed_loop(
                    steps,
                    gaps,
                    start_ns=MONO_NS + made.randint(0, 5) * S,
                    index=index,
                    kind=made.choice(["fit", "evaluate", "function", "session_run"]),
                    thread=made.choice(["MainThread", "Thread-1"]),
                )
            )
        activities = []
        for _ in range(made.randint(0, 30)):
            start_ns = made.randint(-1000, 20_000) * MS
            kind = made.choice(
                ["import", "build", "trace", "xla", "save", "callbacks", "user", "train"]
            )
            activities.append(activity(kind, start_ns, start_ns + made.randint(0, 3000) * MS))
        cost = replace(NO_COST, traced_ns=made.randint(0, 500) * MS)

        account(loops, made.randint(1, 40) * S, cost=cost, activities=tuple(activities))


def test_what_an_estimator_does_before_its_steps_is_preparation():
    """In each of its training calls: the runs that it makes there keep their own time."""
    first, again = (
        timed_loop([100 * MS] * 20, 0, start_ns=MONO_NS + at * S, kind="session_run")
        for at in (10, 20)
    )
    recent = RecentSteps(
        0,
        np.concatenate([first.recent.start_ns, again.recent.start_ns]),
        np.concatenate([first.recent.end_ns, again.recent.end_ns]),
        np.zeros(40, dtype=np.bool_),
        np.zeros(40, dtype=np.bool_),
    )
    train = replace(first, recent=recent, executed=40)
    calls = [
        activity("train", at * S, (at + 5) * S, "Estimator.train", file="/job/train.py", line=30)
        for at in (8, 18)
    ]

    found = account([train], 30 * S, activities=(*calls, activity("build", 18 * S, 19 * S)))

    assert items(found, Category.PREPARATION)[
        "Estimator.train before its steps /job/train.py:30"
    ] == (pytest.approx(3.0))
    assert found.setups == (2, 3 * S)
    assert found.prepared_ns == 10 * S


@pytest.mark.parametrize(("kind", "prepared_s"), [("optimizer_step", 5), ("jit", 8)])
def test_the_first_step_of_an_optimizer_is_no_preparation(kind: str, prepared_s: int) -> None:
    """Only its update is seen; forward and backward pass take as long as in other steps."""
    loop = timed_loop([10 * MS] + [3 * S] * 4, 0, start_ns=MONO_NS + 8 * S, kind=kind)

    assert account([loop]).prepared_ns == prepared_s * S


def test_steps_that_nobody_waits_for_have_no_account() -> None:
    """How long they take is not known, and so not what else there was."""
    timed = timed_loop([MS] * 50, 20 * MS)
    loop = replace(
        timed, kind="jit", recent=timed.recent.until(0), queue=StepQueue(50, 0.0, 0, 0, 0)
    )
    one = process(
        unix_minus_monotonic_ns=SHIFT_NS, hooks=replace(NO_COST, wall_ns=60 * S), exec_ns=UNIX_NS
    )

    (found,) = process_accounts(profile(loops=[loop], processes=[one]))

    assert isinstance(found, Missing)
    assert "was not seen to wait" in found.reason
