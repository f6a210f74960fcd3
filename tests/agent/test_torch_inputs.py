"""How long batches take is noted while nothing is traced, for the step that is."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load

inputs = load("frameworks.torch.inputs")
profiler, tracing = load("frameworks.torch.profiler"), load("core.tracing")
thread_state = load("frameworks.torch.thread_state")


class Sampler:
    """Stands for a loader: that of its batches."""


TRAIN, TEST = Sampler(), Sampler()


class Batches:
    """An iterator of a DataLoader whose batches take so many ns each."""

    def __init__(self, sampler: object, took_ns: list[int], clock: Any) -> None:
        self._index_sampler = sampler
        self._num_yielded = 0
        self._took_ns = took_ns
        self._clock = clock

    def __next__(self) -> int:
        if self._num_yielded == len(self._took_ns):
            raise StopIteration
        self._clock.now_ns += self._took_ns[self._num_yielded]
        self._num_yielded += 1
        return self._num_yielded


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The state of this thread, as it begins."""
    found = thread_state.TorchThread()
    monkeypatch.setattr(inputs, "torch_thread", lambda: found)
    return found


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, state: Any) -> Iterator[Any]:
    """Take all batches through the agent's wrapper."""
    clock = SimpleNamespace(now_ns=1000)
    clock.monotonic_ns = lambda: clock.now_ns
    monkeypatch.setattr(inputs, "UNPATCHED", clock)
    take = inputs._around_next(Batches.__next__)

    def take_all(sampler: object, *took_ns: int) -> list[int]:
        batches = Batches(sampler, list(took_ns), clock)
        found = []
        while True:
            try:
                found.append(take(batches))
            except StopIteration:
                return found

    yield take_all
    assert not state.disabled


def _trace(thread: Any, monkeypatch: pytest.MonkeyPatch, window: object) -> None:
    monkeypatch.setattr(tracing.TRACING, "window", window)
    thread.window = window


def test_the_mean_is_that_of_the_same_loader(thread, taken, monkeypatch) -> None:
    """Over all passes, without the first batch of each, which waits for workers to start."""
    assert taken(TRAIN, 900, 10, 20) == [1, 2, 3]
    taken(TEST, 900, 500, 500, 500)
    taken(TRAIN, 900, 30)
    _trace(thread, monkeypatch, SimpleNamespace(is_stale=lambda: False))
    taken(TRAIN, 5000, 5000)

    assert thread.traced_batch_ns() == 20
    assert thread.traced_batch_ns() is None  # that window has ended


def _open(thread: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _trace(thread, monkeypatch, SimpleNamespace(is_stale=lambda: False))


@pytest.mark.parametrize(
    ("traced", "mean_ns"), [((), None), ((TRAIN, TEST), 30), ((TRAIN, TEST, TEST), 33)]
)
def test_batches_of_several_loaders_have_one_mean(
    thread, taken, monkeypatch, traced, mean_ns
) -> None:
    """As often as each was taken from; a step without batches has none."""
    taken(TRAIN, 900, 20, 20, 20)
    taken(TEST, 900, 40, 40, 40)
    _open(thread, monkeypatch)
    for sampler in traced:
        taken(sampler, 10)

    assert thread.traced_batch_ns() == mean_ns


def test_batches_that_vary_have_no_mean(thread, taken, monkeypatch) -> None:
    """No single one is as long as that."""
    taken(TRAIN, 900, *[10, 10, 1000] * 20)
    _open(thread, monkeypatch)
    taken(TRAIN, 10)

    assert thread.traced_batch_ns() is None


def test_the_mean_follows_what_batches_take_now(thread, taken, monkeypatch) -> None:
    taken(TRAIN, 900, *[100] * 1000, *[150] * 1000)
    _open(thread, monkeypatch)
    taken(TRAIN, 10)

    assert 145 < thread.traced_batch_ns() <= 150


def test_a_sampler_that_cannot_be_followed_is_left_alone(thread, taken) -> None:
    """Batches may be a list of numbers."""
    assert taken([[0, 1], [2, 3]], 10, 10, 10, 10) == [1, 2, 3, 4]

    assert thread.batches == {}


def test_a_loader_of_the_past_is_not_taken_for_a_new_one(thread, taken) -> None:
    """Its number may be that of another one now."""
    old = Sampler()
    taken(old, 900, 10, 10, 10)
    known = thread.batches_of(old)
    del old
    assert known.sampler() is None
    new = Sampler()
    thread.batches = {id(new): known}

    assert thread.batches_of(new) is not known


def test_a_batch_that_is_made_of_batches_counts_once(thread, taken, monkeypatch) -> None:
    """That of the outer loader."""
    thread.taking = True
    taken(TRAIN, 900, 10, 10, 10)

    assert thread.batches == {}


def test_two_batches_are_no_measure(thread, taken, monkeypatch) -> None:
    taken(TRAIN, 900, 10, 20)
    _trace(thread, monkeypatch, SimpleNamespace(is_stale=lambda: False))
    taken(TRAIN, 10)

    assert thread.traced_batch_ns() is None


def test_what_the_jobs_own_profiler_slows_down_is_no_measure(thread, taken, monkeypatch) -> None:
    monkeypatch.setattr(profiler.SESSIONS, "open", {7})
    taken(TRAIN, 900, 10, 20, 30)

    assert thread.batches_of(TRAIN).count == 0
