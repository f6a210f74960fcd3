"""What JAX compiles in a traced step is the job's own time, not the cost of the recording."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load, replace_unpatched

tracing, profiler = load("core.tracing"), load("frameworks.jax.profiler")

USUAL_NS, COMPILED_NS = 2_000_000, 300_000_000


class Loop(SimpleNamespace):
    """A loop with a usual step and a latest one."""

    def usual_ns(self) -> int | None:
        return self.usual

    def latest_ns(self) -> int:
        return self.latest

    def latest_end_ns(self) -> int:
        return self.latest


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The open window of this thread, which compiles; its session has ended already."""
    tracing.reset()
    window = profiler.Window(None, (), {})
    monkeypatch.setattr(profiler.waits, "are_ready", lambda _values: True)
    monkeypatch.setattr(profiler.waits, "wait_for", lambda _values: None)
    monkeypatch.setattr(profiler.queued_steps, "waited", lambda *_args, **_options: None)
    replace_unpatched(monkeypatch, profiler, monotonic_ns=lambda: 0)
    tracing.TRACING.window = window
    yield window
    tracing.reset()


def finished(window: Any, usual_ns: int | None, latest_ns: int) -> int:
    """What the recording is not charged for."""
    loop = Loop(usual=usual_ns, latest=latest_ns)
    window.finish(loop, 7, None)
    counted_ns: int = window.waited_ns
    return counted_ns


def test_a_compilation_is_no_cost(window) -> None:
    """The step took longer than usual by what it compiled."""
    tracing.compiled(COMPILED_NS)

    left_ns = finished(window, USUAL_NS, USUAL_NS + COMPILED_NS + 50_000)

    assert left_ns == COMPILED_NS


def test_a_step_that_always_compiles_costs_nothing_for_it(window) -> None:
    """Its usual step compiles as well: only what is beyond that could be a cost."""
    tracing.compiled(COMPILED_NS)

    assert finished(window, COMPILED_NS, COMPILED_NS) == 0


def test_where_no_usual_step_is_known_the_step_is_not_charged(window) -> None:
    """So nothing is left out either."""
    tracing.compiled(COMPILED_NS)

    assert finished(window, None, COMPILED_NS) == 0


def test_another_thread_compiles_for_itself(window) -> None:
    """What it compiles meanwhile did not lengthen this step."""
    other = threading.Thread(target=tracing.compiled, args=(COMPILED_NS,))
    other.start()
    other.join()

    assert window.compiled_ns == 0
