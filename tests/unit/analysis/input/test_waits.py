"""Each moment that a step waits belongs to the stage at work then, and to no other."""

from __future__ import annotations

import pytest

from tests.support.profiles import Span, op, spans, table
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.core.intervals import one
from tfprobe.analysis.input.input_waits import WaitShare, active_ns, timelines_of, wait_shares
from tfprobe.analysis.input.stages import Pipeline, pipeline
from tfprobe.profile.capture_tables import SpanKind

ROOT = "Iterator::Root"


def call(path: str, start_us: float, duration_us: float, lane: str = "step", **more) -> Span:
    return Span(SpanKind.ITERATOR, path, start_us, duration_us, lane, **more)


def function(path: str, start_us: float, duration_us: float) -> Span:
    return Span(SpanKind.DATASET_FUNCTION, path, start_us, duration_us, "pool", background=True)


def given_to(found: Pipeline, *waits_ns: tuple[int, int]) -> tuple[WaitShare, ...]:
    """Return the shares of stages where captures, 0 and on, are steps that wait from, to."""
    windows = {at: one(start, end) for at, (start, end) in enumerate(waits_ns)}
    ops = [
        [op("IteratorGetNext", 0, 0)._replace(start_ns=s, duration_ns=e - s)] for s, e in waits_ns
    ]
    return wait_shares(found, timelines_of(found, spans([]), table(ops), windows))


def shares(*rows: Span, wait_us: tuple[float, float]) -> dict[str, WaitShare]:
    """Return the shares of stages, by name, of a step that waits from, to."""
    found = pipeline(spans([rows]))
    start, end = (UNIX_NS + round(each * 1000) for each in wait_us)
    given = given_to(found, (start, end))
    assert sum(each.total_ns for each in given) <= end - start
    return {stage.name: each for stage, each in zip(found.stages, given, strict=True)}


def test_a_stage_has_what_the_one_below_it_does_not() -> None:
    """Stages that call each other on one thread share the wait by their own work."""
    found = shares(
        call(ROOT, 0, 1000),
        call(f"{ROOT}::Batch", 10, 980),
        call(f"{ROOT}::Batch::Map", 20, 400),
        call(f"{ROOT}::Batch::Map", 500, 400),
        call(f"{ROOT}::Batch::Map::Range", 20, 50),
        wait_us=(0, 1000),
    )

    own_us = {name: each.own_ns / 1000 for name, each in found.items()}
    assert own_us == {"Root": 20, "Batch": 180, "Map": 750, "Range": 50}


def test_a_buffer_hands_the_wait_to_who_fills_it() -> None:
    """The cause of a wait for a prefetch is the stage that works on the other thread."""
    found = shares(
        call(ROOT, 0, 1000),
        call(f"{ROOT}::Prefetch", 0, 1000),
        call(f"{ROOT}::Prefetch::Map", 0, 990, "pool", background=True),
        call(f"{ROOT}::Prefetch::Map::Range", 0, 90, "pool", background=True),
        wait_us=(0, 1000),
    )

    assert found["Map"].own_ns == 900_000
    assert found["Range"].own_ns == 90_000
    assert found["Prefetch"].own_ns == 10_000


def test_what_was_made_while_the_step_did_not_wait_is_free() -> None:
    """A slow stage below a full buffer has no share."""
    found = shares(
        call(ROOT, 0, 20),
        call(f"{ROOT}::Prefetch", 2, 15),
        call(f"{ROOT}::Prefetch::Map", 100, 5000, "pool", background=True),
        wait_us=(0, 20),
    )

    assert found["Map"].total_ns == 0


def test_a_stage_whose_calls_are_not_recorded_has_the_time_of_its_function() -> None:
    """The call of a MapAndBatch lasts longer than the step: its function shows it."""
    path = f"{ROOT}::Prefetch::MapAndBatch"
    found = shares(
        call(ROOT, 0, 1000),
        call(f"{ROOT}::Prefetch", 0, 1000),
        call(f"{path}::Range", 300, 5, "runner", background=True),
        function(path, 305, 300),
        function(path, 605, 390),
        wait_us=(0, 1000),
    )

    assert found["MapAndBatch"].function_ns == 690_000
    assert found["Range"].own_ns == 5_000
    assert found["MapAndBatch"].unseen_ns + found["Range"].unseen_ns == 300_000
    assert found["MapAndBatch"].unseen_ns > 290_000


def test_a_call_begun_before_the_recording_is_found_by_elimination() -> None:
    """The calls of Map are missing and those of its source are short: Map is slow."""
    found = shares(
        call(ROOT, 0, 1000),
        call(f"{ROOT}::Prefetch", 0, 1000),
        call(f"{ROOT}::Prefetch::Map::Batch", 1005, 20, "pool", background=True),
        call(f"{ROOT}::Prefetch::Map::Batch::Range", 1006, 10, "pool", background=True),
        wait_us=(0, 1000),
    )

    assert found["Map"].unseen_ns == 1_000_000


def test_what_is_missing_is_looked_for_in_each_recording_by_itself() -> None:
    """A complete call in another capture does not rule out the stage in this one."""
    path = f"{ROOT}::Prefetch::Map"
    straddling = [
        call(ROOT, 0, 1000),
        call(f"{ROOT}::Prefetch", 0, 1000),
        call(f"{path}::Batch", 1005, 20, "pool", background=True),
    ]
    whole = [*straddling, call(path, 1002, 10, "pool", background=True)]
    found = pipeline(spans([straddling, whole]))

    given = given_to(found, (UNIX_NS, UNIX_NS + 1_000_000))

    (unseen,) = [each for each in zip(found.stages, given, strict=True) if each[1].unseen_ns]
    assert (unseen[0].name, unseen[1].guessed_ns) == ("Map", 0)


def test_a_stage_seen_to_be_short_elsewhere_is_not_what_lasts() -> None:
    """If a capture has no calls below a buffer, others show which stages are fast."""
    nothing = [call(ROOT, 0, 5000), call(f"{ROOT}::Prefetch", 0, 5000)]
    short = call(f"{ROOT}::Prefetch::Map::Batch", 5005, 20, "pool", background=True)
    found = pipeline(spans([nothing, [*nothing, short]]))

    given = given_to(found, (UNIX_NS, UNIX_NS + 5_000_000))

    (unseen,) = [each for each in zip(found.stages, given, strict=True) if each[1].unseen_ns]
    assert unseen[0].name == "Map"


@pytest.mark.parametrize("name", ["ForeverRepeat", "FlatMap", "FiniteTake", "Interleave"])
def test_what_only_passes_elements_on_is_never_what_lasts(name: str) -> None:
    """The end of a file is a short call below a Repeat: the record before it took long."""
    path = f"{ROOT}::Prefetch::{name}"
    found = shares(
        call(ROOT, 0, 1000),
        call(f"{ROOT}::Prefetch", 0, 1000),
        call(f"{path}::TFRecord", 1005, 20, "pool", background=True),
        wait_us=(0, 1000),
    )

    assert found["TFRecord"].unseen_ns == found["TFRecord"].guessed_ns == 1_000_000


@pytest.mark.parametrize(
    ("name", "detail", "is_served"),
    [
        ("Prefetch", "buffer_limit:2 buffered_elements:1", True),
        ("Prefetch", "buffer_limit:2", False),
        ("ParallelMapV2", "parallelism:2 buffered_elements:2", True),
        ("ParallelMapV2", "parallelism:2 buffered_elements:1", False),
        ("ParallelMapV2", "parallelism:unavailable buffered_elements:1", False),
        ("MapAndBatch", "max_batch_results:1 buffered_elements:1", True),
        ("ParallelInterleaveV4", "parallelism:1 buffered_elements:1", False),
    ],
)
def test_an_element_that_was_ready_blames_nobody(name: str, detail: str, is_served: bool) -> None:
    """On a busy machine, even taking from a full buffer can wait for a core."""
    found = shares(
        call(ROOT, 0, 5000),
        call(f"{ROOT}::{name}", 0, 5000, detail=detail),
        call(f"{ROOT}::{name}::Range", 0, 3000, "pool", background=True),
        wait_us=(0, 5000),
    )

    assert (found[name] == WaitShare(own_ns=5_000_000)) is is_served
    assert (found["Range"].total_ns == 0) is is_served


def test_where_nothing_below_a_buffer_is_recorded_the_wait_stays_there() -> None:
    """If the calls of a source outlast the step, only the buffer above it is known."""
    found = shares(call(ROOT, 0, 1000), call(f"{ROOT}::Prefetch", 0, 1000), wait_us=(0, 1000))

    assert found["Prefetch"].unseen_ns == 1_000_000


def test_a_short_wait_for_a_full_buffer_is_its_own() -> None:
    """A woken thread needs time to run again, for which no stage is the cause."""
    found = shares(
        call(ROOT, 0, 60),
        call(f"{ROOT}::Prefetch", 0, 60),
        call(f"{ROOT}::Prefetch::Map", 70, 60, "pool", background=True),
        wait_us=(0, 60),
    )

    assert found["Prefetch"] == WaitShare(own_ns=60_000)


@pytest.mark.parametrize("name", ["ParallelMapV2", "ParallelInterleaveV4", "MapAndBatch"])
def test_the_function_of_a_parallel_stage_comes_before_its_input(name: str) -> None:
    """A parallel stage reads ahead while its functions run: they are the cause of the wait."""
    found = shares(
        call(ROOT, 0, 500),
        call(f"{ROOT}::{name}", 0, 500),
        function(f"{ROOT}::{name}", 0, 500),
        call(f"{ROOT}::{name}::Range", 0, 500, "runner", background=True),
        wait_us=(0, 500),
    )

    assert found[name].function_ns == 500_000
    assert found["Range"].total_ns == 0


def test_interleaved_inputs_are_one_stage() -> None:
    """A wait for iterators of one stage on several threads counts once."""
    path = f"{ROOT}::ParallelInterleaveV4"
    found = shares(
        call(ROOT, 0, 500),
        call(path, 0, 500),
        call(f"{path}[0]::Map", 0, 300, "a", identity=7, background=True),
        call(f"{path}[1]::Map", 100, 400, "b", identity=8, background=True),
        wait_us=(0, 500),
    )

    assert found["Map"].own_ns == 500_000


@pytest.mark.parametrize("far_us", [0, 10**15])
def test_captures_are_looked_at_together_and_damaged_ones_by_themselves(far_us: int) -> None:
    """A call that lasts for centuries in another capture changes nothing in this one."""
    rows = [call(ROOT, 0, 1000), call(f"{ROOT}::Map", 100, 700)]
    others = [[*rows, call(ROOT, 0, far_us, "other")] for _ in range(3)]
    alone, all_found = pipeline(spans([rows])), pipeline(spans([rows, *others]))
    wait = (UNIX_NS, UNIX_NS + 1_000_000)

    one_ns = [each.total_ns for each in given_to(alone, wait)]
    four_ns = [each.total_ns for each in given_to(all_found, *[wait] * 4)]

    assert four_ns == [4 * each for each in one_ns]
    assert sum(one_ns) == 1_000_000


def test_work_is_counted_whether_or_not_a_step_waits() -> None:
    """What a stage did in each of two captures, and outside of their steps, too."""
    rows = [call(ROOT, 0, 1000), call(f"{ROOT}::Map", 100, 700)]
    found = pipeline(spans([rows, rows]))
    windows = {at: one(UNIX_NS, UNIX_NS + 10) for at in range(2)}

    seen = timelines_of(found, spans([]), table([]), windows)

    assert active_ns(found, seen) == (600_000, 1_400_000)
