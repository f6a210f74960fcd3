"""A pipeline is a tree of stages with calls, times, threads and facts."""

from __future__ import annotations

from tests.support.profiles import Span, spans
from tfprobe.analysis.input.stages import Stage, pipeline
from tfprobe.profile.capture_tables import SpanKind

ROOT = "Iterator::Root"


def call(path: str, start_us: float, duration_us: float, lane: str = "step", **more) -> Span:
    return Span(SpanKind.ITERATOR, path, start_us, duration_us, lane, **more)


def stages(*captures: list[Span]) -> dict[str, Stage]:
    return {stage.name: stage for stage in pipeline(spans(captures)).stages}


def test_self_time_is_without_calls_on_the_same_thread() -> None:
    """The time of a stage while another thread works for it is its own, waiting or not."""
    found = stages(
        [
            call(ROOT, 0, 100),
            call(f"{ROOT}::Batch", 10, 80),
            call(f"{ROOT}::Batch::Range", 20, 5),
            call(f"{ROOT}::Batch::Range", 30, 5),
            call(f"{ROOT}::Batch::Range", 40, 5, "other"),
        ]
    )

    assert [found[name].self_ns // 1000 for name in ("Root", "Batch", "Range")] == [20, 70, 15]
    assert found["Range"].calls == 3
    assert len(found["Range"].threads) == 2


def test_self_times_of_captures_do_not_mix() -> None:
    """A call in one capture is not inside one at the same time in another."""
    found = stages([call(f"{ROOT}::Batch", 0, 100)], [call(f"{ROOT}::Batch::Range", 10, 50)])

    assert found["Batch"].self_ns == 100_000


def test_a_stage_without_a_call_of_its_own_is_there() -> None:
    """The paths of the stages below contain it."""
    found = stages([call(f"{ROOT}::Prefetch::Map::Range", 0, 1)])

    assert found["Map"].calls == 0
    assert found["Map"].children == (3,)
    assert [stage.parent for stage in found.values()] == [None, 0, 1, 2]


def test_facts_are_those_of_the_last_call() -> None:
    """Autotuned numbers change: the last are shown. A value may have blanks."""
    found = stages(
        [
            call(ROOT, 0, 1, detail="name:RootDataset:6 parallelism:1"),
            call(ROOT, 5, 1, detail="name:RootDataset:6 parallelism:4 ram:3 out of 5 shape:[?]"),
        ]
    )

    assert found["Root"].facts == {
        "name": "RootDataset:6",
        "parallelism": "4",
        "ram": "3 out of 5",
        "shape": "[?]",
    }


def test_iterators_of_an_interleave_are_counted() -> None:
    """One stage, several iterators; calls over 50 µs are slow."""
    found = stages(
        [
            call(f"{ROOT}::Interleave[0]::Map", 0, 10, identity=1),
            call(f"{ROOT}::Interleave[1]::Map", 20, 60, identity=2),
            call(f"{ROOT}::Interleave[0]::Map", 90, 50, identity=1),
        ]
    )

    assert found["Map"].iterators == 2
    assert found["Map"].slow_calls == 1
    assert found["Map"].longest_ns == 60_000


def test_a_damaged_name_is_no_deep_tree() -> None:
    """A name of a million parts costs neither time nor memory."""
    deep = "::".join(["x"] * 1_000_000)

    assert len(pipeline(spans([[call(deep, 0, 1)]])).stages) == 100


def test_no_calls_are_no_stages() -> None:
    """A recording without tf.data has no pipeline."""
    assert pipeline(spans([])).stages == ()
