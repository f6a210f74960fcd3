"""The exporter looks when it is asked, not too often, and never lets a counter go down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import looks
from tests.support.looks import NOW_NS, SECOND_NS
from tests.support.profiles import durations
from tfprobe.errors import UnreadableInput
from tfprobe.live.metrics import exporter as exporter_module
from tfprobe.live.metrics.exporter import Exporter, ExporterBusy, MetricsAnswer
from tfprobe.live.metrics.family import Histogram
from tfprobe.live.metrics.subjects import Limits
from tfprobe.profile.snapshots import FleetSnapshot


class Runs:
    """Looks that follow each other, and a clock that moves by hand."""

    def __init__(self, *found: FleetSnapshot | Exception) -> None:
        self.found = iter(found)
        self.looks = 0
        self.now_s = 0.0
        self.said: list[str] = []
        self.exporter = Exporter(
            self.look, limits=Limits(), complain=self.said.append, clock=lambda: self.now_s
        )

    def look(self) -> FleetSnapshot:
        self.looks += 1
        found = next(self.found)
        if isinstance(found, Exception):
            raise found
        return found

    def answer(self, after_s: float = 15.0) -> MetricsAnswer:
        self.now_s += after_s
        return self.exporter.answer()


def value(answer: MetricsAnswer, name: str, *more: str) -> Any:
    """Return the only value of a family whose labels end with `more`."""
    (exposed,) = [each for each in answer.families if each.family.name == name]
    ends = len(exposed.family.labels) - len(more)
    found = [each.value for each in exposed.series if each.labels[ends:] == more]
    return found[0] if found else None


def with_loops(*loops: Any) -> FleetSnapshot:
    return looks.fleet(looks.run([looks.process(loops)]))


def test_two_servers_share_a_look():
    """Whoever asks within a second gets the answer of the one before."""
    runs = Runs(*[looks.fleet()] * 3)

    answers = [runs.answer(after_s) for after_s in (15.0, 0.5, 0.6)]

    assert (runs.looks, [each.number for each in answers]) == (2, [1, 1, 2])


def test_one_look_is_made_at_a_time():
    """A second client waits for the first one's look, and gets it."""
    looking, go_on = threading.Event(), threading.Event()

    def look() -> FleetSnapshot:
        looking.set()
        go_on.wait(30)
        return looks.fleet()

    exporter = Exporter(look, limits=Limits())
    answers: list[MetricsAnswer] = []
    clients = [
        threading.Thread(target=lambda: answers.append(exporter.answer())) for _ in range(4)
    ]  # fmt: skip
    for client in clients:
        client.start()
    looking.wait(30)
    go_on.set()
    for client in clients:
        client.join(30)

    assert [each.number for each in answers] == [1, 1, 1, 1]


def test_nobody_waits_for_ever(monkeypatch):
    """Where a file system hangs, who asks next is told so."""
    monkeypatch.setattr(exporter_module, "LONGEST_WAIT_S", 0.01)
    looking, go_on = threading.Event(), threading.Event()

    def look() -> FleetSnapshot:
        looking.set()
        go_on.wait(30)
        return looks.fleet()

    exporter = Exporter(look, limits=Limits())
    first = threading.Thread(target=exporter.answer)
    first.start()
    looking.wait(30)

    with pytest.raises(ExporterBusy, match="not answered"):
        exporter.answer()

    go_on.set()
    first.join(30)


def test_a_counter_never_goes_down():
    """A step that raises is noted before it is counted: for a moment there seems to be one less."""
    runs = Runs(*(with_loops(looks.steps(count)) for count in (100, 99, 101)))

    counts = [value(runs.answer(), "tfprobe_steps_total", "loss") for _ in range(3)]

    assert counts == [100, 100, 101]


def test_a_histogram_never_goes_down_in_any_bucket():
    """And stays one: its buckets rise, and the last is its count."""
    fast, slow = durations([1_000_000] * 9), durations([9_000_000_000] * 5)
    runs = Runs(*(with_loops(looks.steps(9, times=times)) for times in (fast, slow)))

    first, second = (
        value(runs.answer(), "tfprobe_step_duration_seconds", "loss") for _ in range(2)
    )

    assert isinstance(second, Histogram)
    assert all(b >= a for a, b in zip(first.cumulative, second.cumulative, strict=True))
    assert list(second.cumulative) == sorted(second.cumulative)
    assert second.count == 9


def test_a_gauge_goes_down():
    """Memory that was given back is not held."""
    resource_samples = [looks.resource_sample(resident_bytes=size) for size in (200, 100)]
    runs = Runs(
        *(
            looks.fleet(looks.run([looks.process(resource_samples=(each,))]))
            for each in resource_samples
        )
    )

    name = "tfprobe_process_resident_memory_bytes"
    assert [value(runs.answer(), name) for _ in range(2)] == [200, 100]


def test_a_run_that_vanishes_takes_its_series_with_it():
    """Nothing is told of what is not there, and nothing of it is kept."""
    empty = FleetSnapshot("/runs", NOW_NS, ())
    runs = Runs(with_loops(looks.steps(100)), empty, with_loops(looks.steps(50)))

    counts = [value(runs.answer(), "tfprobe_steps_total", "loss") for _ in range(3)]

    assert counts == [100, None, 50]


def failing() -> Iterator[Exception]:
    yield UnreadableInput("/runs is gone.")
    yield UnreadableInput("/runs is gone.")
    yield OSError("stale file handle")


def test_a_directory_that_vanishes_is_told_and_the_answers_go_on():
    """Each failure is counted, each new one said once; when it is back, all is as before."""
    runs = Runs(looks.fleet(), *failing(), looks.fleet())

    answers = [runs.answer() for _ in range(5)]

    assert [value(each, "tfprobe_directory_up") for each in answers] == [1, 0, 0, 0, 1]
    assert value(answers[3], "tfprobe_exporter_failed_looks_total") == 3
    assert [value(each, "tfprobe_steps_total") for each in answers] == [100, None, None, None, 100]
    assert runs.said == [
        "/runs is gone.",
        "A look at the runs failed: OSError: stale file handle",
    ]


def test_a_process_is_told_for_an_hour_after_it_was_last_seen_alive():
    """Not after its last step, which may have been hours ago when it was killed."""
    hour_ns = 3600 * SECOND_NS

    def look(state: str, hours: float) -> FleetSnapshot:
        run = looks.run([looks.process(state=state)], state=state)
        return looks.fleet(run, at_unix_ns=NOW_NS + round(hours * hour_ns))

    runs = Runs(look("running", 5), look("killed", 5.5), look("killed", 6.5))

    told = [value(runs.answer(), "tfprobe_steps_total") for _ in range(3)]

    assert told == [100, 100, None]


def test_looks_are_timed():
    """By the clock of the exporter."""
    found: Callable[[], FleetSnapshot] = looks.fleet
    ticks = iter((0.0, 0.0, 0.25, 0.25, 10.0, 10.0, 10.5, 10.5))
    exporter = Exporter(found, limits=Limits(), clock=lambda: next(ticks))

    exporter.answer()
    answer = exporter.answer()

    assert value(answer, "tfprobe_exporter_looks_total") == 2
    assert value(answer, "tfprobe_exporter_last_look_seconds") == 0.5
    assert value(answer, "tfprobe_exporter_look_seconds_total") == 0.75
