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
TRAIN, TEST = object(), object()


class Batches:
    """An iterator of a DataLoader whose batches take so many ns each."""

    def __init__(self, dataset: object, took_ns: list[int], clock: Any) -> None:
        self._dataset = dataset
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

    def take_all(dataset: object, *took_ns: int) -> list[int]:
        batches = Batches(dataset, list(took_ns), clock)
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


def test_the_mean_is_that_of_the_same_data(thread, taken, monkeypatch) -> None:
    """Over all passes, without the first batch of each, which waits for workers to start."""
    assert taken(TRAIN, 900, 10, 20) == [1, 2, 3]
    taken(TEST, 900, 500, 500, 500)
    taken(TRAIN, 900, 30)
    _trace(thread, monkeypatch, SimpleNamespace(is_stale=lambda: False))
    taken(TRAIN, 5000, 5000)

    assert thread.traced_batch_ns() == 20
    assert thread.traced_batch_ns() is None  # that window has ended


@pytest.mark.parametrize("traced", [(), (TRAIN, TEST)])
def test_a_step_without_batches_or_with_two_kinds_has_none(
    thread, taken, monkeypatch, traced
) -> None:
    taken(TRAIN, 900, 10, 20, 30)
    taken(TEST, 900, 10, 20, 30)
    _trace(thread, monkeypatch, SimpleNamespace(is_stale=lambda: False))
    for dataset in traced:
        taken(dataset, 10)

    assert thread.traced_batch_ns() is None


def test_two_batches_are_no_measure(thread, taken, monkeypatch) -> None:
    taken(TRAIN, 900, 10, 20)
    _trace(thread, monkeypatch, SimpleNamespace(is_stale=lambda: False))
    taken(TRAIN, 10)

    assert thread.traced_batch_ns() is None


def test_what_the_jobs_own_profiler_slows_down_is_no_measure(thread, taken, monkeypatch) -> None:
    monkeypatch.setattr(profiler.SESSIONS, "open", {7})
    taken(TRAIN, 900, 10, 20, 30)

    assert thread.batches == {}
