"""What ranks wait for each other in collectives: out of productive steps, never more than known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.support.profiles import HOOKS, Step, op, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tests.unit.analysis.distributed.test_collectives import REDUCE, reduce
from tfprobe.analysis.account.account import Account, merge_accounts, process_accounts
from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.account.collectives import run_accounts
from tfprobe.analysis.account.ledger import Item
from tfprobe.analysis.distributed.rank_comparison import compare_parts as beside
from tfprobe.analysis.distributed.rank_parts import rank_parts_of
from tfprobe.analysis.distributed.rank_waits import Waits
from tfprobe.profile.capture_tables import Row
from tfprobe.profile.profile import Profile
from tfprobe.report.documents.account_document import account_document

MS = 1_000_000
STEP_US, GAP_US = 1000, 10
STEPS = 201
FIRST = 50
Rows = Sequence[Row]


def job(
    by_rank: Mapping[int, Sequence[Rows]], first_steps: Mapping[int, int] | None = None
) -> Profile:
    """Return a run of ranks whose steps take 1 ms, of which each recorded some from 50 on.

    Times of rows count from the start of their step.
    """
    first_steps = first_steps or {}
    steps, places = [], []
    for rank, recorded in by_rank.items():
        for step, rows in enumerate(recorded, first_steps.get(rank, FIRST)):
            late_ns = step * (STEP_US + GAP_US) * 1000
            moved = [row._replace(start_ns=row.start_ns + late_ns) for row in rows]
            steps.append(Step(moved, duration_us=STEP_US))
            places.append((rank, step, late_ns))
    made = profile(
        steps,
        loops=[
            timed_loop([STEP_US * 1000] * STEPS, GAP_US * 1000, process=rank, index=0)
            for rank in by_rank
        ],
        processes=[
            process(
                index=rank,
                rank=rank,
                pid=4711 + rank,
                unix_minus_monotonic_ns=UNIX_NS - MONO_NS,
                exec_ns=UNIX_NS,
                hooks=replace(HOOKS, wall_ns=300 * MS, calls_measured=0, traced_ns=0, once_ns=0),
            )
            for rank in by_rank
        ],
    )
    captures = tuple(
        replace(each, process=rank, step=step, start_ns=each.start_ns + late_ns)
        for each, (rank, step, late_ns) in zip(made.captures, places, strict=True)
    )
    return replace(made, captures=captures)


def told(made: Profile) -> list[Account]:
    """Return the account of each rank; whatever is moved, its sum is the wall time."""
    found = []
    for each in run_accounts(made):
        assert isinstance(each, Account)
        assert sum(part.ns for part in each.parts) == each.wall_ns
        assert all(sum(item.ns for item in part.items) <= part.ns for part in each.parts)
        assert sum(part["ratio"] for part in account_document(each)["parts"]) == 1
        found.append(each)
    return found


def steady_ns(made: Profile) -> int:
    """Return how long the steps of rank 0 are productive as far as it knows alone."""
    alone = process_accounts(made)[0]
    assert isinstance(alone, Account)
    return alone.ns(Category.PRODUCTIVE)


def waited(found: Account) -> dict[str, Item]:
    return {item.what: item for item in found.items(Category.OTHERS)}


def test_time_in_which_a_rank_waits_is_not_productive() -> None:
    """Rank 0 is inside for 800 µs of each step, rank 1 for the last 200: these move bytes."""
    made = job({0: [[reduce(100, 800)]] * 3, 1: [[reduce(700, 200)]] * 3})

    early, late = told(made)

    (item,) = waited(early).values()
    assert item.what == f"for rank 1 in {REDUCE}"
    assert (item.source, item.samples) == ("", 3)
    assert item.ns == early.ns(Category.OTHERS) == pytest.approx(0.6 * steady_ns(made), rel=1e-6)
    assert early.ns(Category.PRODUCTIVE) == steady_ns(made) - item.ns
    assert late == process_accounts(made)[1]


def test_the_sum_of_all_ranks_has_it_too() -> None:
    """A run is the sum of its processes; the item keeps its samples."""
    made = job({0: [[reduce(100, 800)]] * 3, 1: [[reduce(700, 200)]] * 3})

    early, late = told(made)
    found = merge_accounts([early, late])

    assert isinstance(found, Account)
    assert found.ns(Category.OTHERS) == early.ns(Category.OTHERS)
    assert [item.samples for item in found.items(Category.OTHERS)] == [3]
    assert found.goodput_ratio == pytest.approx((early.goodput_ratio + late.goodput_ratio) / 2)


def test_steps_that_differ_bound_what_was_waited() -> None:
    """Two steps that waited 500 and 700 µs; of one alone no bounds are known."""
    two = job(
        {0: [[reduce(100, 800)], [reduce(0, 900)]], 1: [[reduce(600, 300)], [reduce(700, 200)]]}
    )
    one = job({0: [[reduce(100, 800)]], 1: [[reduce(600, 300)]]})

    [of_two] = waited(told(two)[0]).values()
    [of_one] = waited(told(one)[0]).values()

    assert of_two.low_ns is not None
    assert of_two.high_ns is not None
    assert of_two.low_ns < of_two.ns < of_two.high_ns
    assert (of_one.samples, of_one.low_ns, of_one.high_ns) == (1, None, None)


@pytest.mark.parametrize(
    "made",
    [
        job({0: [[reduce(100, 800)]] * 3}),
        job({0: [[reduce(100, 800)]] * 3, 1: [[reduce(700, 200)]] * 3}, {1: FIRST + 3}),
        job({0: [[reduce(100, 800)]] * 3, 1: []}),
        job({0: [[op("MatMul", 0, 900)]], 1: [[op("MatMul", 0, 900)]]}),
    ],
    ids=["one rank", "other steps", "one rank recorded", "no collectives"],
)
def test_what_cannot_be_known_is_not_made_up(made: Profile) -> None:
    """Nothing moves where no collective was recorded of one step in two ranks."""
    assert run_accounts(made) == process_accounts(made)


def test_a_wait_behind_which_a_rank_computes_costs_nothing() -> None:
    """Of the 600 µs until rank 1 comes, ops run in 400."""
    made = job({0: [[reduce(100, 800), op("MatMul", 0, 500)]], 1: [[reduce(700, 200)]]})

    [item] = waited(told(made)[0]).values()

    assert item.ns == pytest.approx(0.2 * steady_ns(made), rel=1e-6)


def test_a_moment_is_waited_once() -> None:
    """Two collectives go on at once; both wait for rank 1, the second 100 µs longer."""
    both = [reduce(100, 800, name="a"), reduce(100, 800, name="b")]
    late = [reduce(600, 300, name="a"), reduce(700, 200, name="b")]
    made = job({0: [both], 1: [late]})

    [item] = waited(told(made)[0]).values()

    assert item.ns == pytest.approx(0.6 * steady_ns(made), rel=1e-6)


def test_each_rank_that_others_waited_for_is_named() -> None:
    """Of three ranks each is last once, to a collective of its own."""
    rows = {
        rank: [
            [
                reduce(300 * at + (200 if at == rank else 0), 250 - (200 if at == rank else 0))
                for at in range(3)
            ]
        ]
        for rank in range(3)
    }

    found = told(job(rows))

    assert [sorted(waited(each)) for each in found] == [
        [f"for rank {other} in {REDUCE}" for other in range(3) if other != rank]
        for rank in range(3)
    ]


def test_a_rank_that_recorded_other_steps_keeps_its_account() -> None:
    """Only the others meet."""
    made = job(
        {0: [[reduce(100, 800)]], 1: [[reduce(700, 200)]], 2: [[reduce(100, 800)]]}, {2: FIRST + 9}
    )

    found = told(made)

    assert [len(waited(each)) for each in found] == [1, 0, 0]
    assert found[2] == process_accounts(made)[2]


def test_a_collective_that_is_all_hidden_is_not_lost() -> None:
    """In half of the steps of rank 0 ops run all the while."""
    hidden = [reduce(0, 1000), op("MatMul", 0, 1000)]
    made = job({0: [[reduce(0, 1000)], hidden] * 2, 1: [[reduce(800, 200)]] * 4})

    [item] = waited(told(made)[0]).values()

    assert item.ns == pytest.approx(0.4 * steady_ns(made), rel=1e-3)


def test_a_collective_that_a_trace_lost_is_not_taken_for_none() -> None:
    """TensorFlow loses one that goes on when its trace ends; the other rank recorded it."""
    kept, lost = [reduce(0, 1000)], [op("MatMul", 0, 10)]
    made = job({0: [kept, kept, lost, kept], 1: [[reduce(800, 200)]] * 4})

    early, _ = told(made)

    [item] = waited(early).values()
    assert item.samples == 3
    assert item.ns == pytest.approx(0.8 * steady_ns(made), rel=1e-3)


def test_steps_without_collectives_are_none_that_a_trace_lost() -> None:
    """Gradients that are summed up are reduced in every second step only."""
    none = [op("MatMul", 0, 10)]
    made = job({0: [[reduce(0, 1000)], none] * 2, 1: [[reduce(800, 200)], none] * 2})

    early, _ = told(made)

    [item] = waited(early).values()
    assert item.ns == pytest.approx(0.4 * steady_ns(made), rel=1e-3)


def test_the_account_waits_as_long_as_ranks_do() -> None:
    """What `tfprobe ranks` tells of traced steps, for all steps."""
    made = job({0: [[reduce(0, 900)], [reduce(200, 700)]], 1: [[reduce(700, 200)]] * 2})

    [item] = waited(told(made)[0]).values()

    waits = beside(rank_parts_of(made)).waits
    assert isinstance(waits, Waits)
    [pair] = waits.pairs
    a_step_ns = pair.waiting_ns / waits.steps
    assert item.ns / steady_ns(made) == pytest.approx(a_step_ns / (STEP_US * 1000))
