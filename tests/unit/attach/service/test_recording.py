"""Recordings last as long as it takes to see the wanted steps, and no longer than allowed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.profiler_service import empty, sent, serving, trace
from tfprobe.attach.service import exchange
from tfprobe.attach.service.client import addresses
from tfprobe.attach.service.recording import WantedSteps, longer_s, record
from tfprobe.errors import UnreadableInput
from tfprobe.profile.reader.service_trace import whole_steps


def test_the_next_recording_lasts_as_long_as_steps_need() -> None:
    """Of 10 s with 4 steps, 8 wanted ones and two cut ones take 25 s, and a margin."""
    assert longer_s(10.0, 4, 8) == pytest.approx(25 * 1.25)


def test_without_a_step_it_lasts_four_times_as_long() -> None:
    """Nobody knows how long a step takes."""
    assert longer_s(0.5, 0, 8) == 2.0


def test_a_recording_is_lengthened_until_its_steps_are_whole(tmp_path: Path) -> None:
    """Steps of 60 ms: the first look sees too few of them, and is not kept."""
    told: list[float] = []

    def answer(request, context):
        return sent(
            trace(request.duration_ms // 60, step_us=59_900) if request.duration_ms else b""
        )

    with serving(answer) as service:
        (found,) = record(
            addresses(service.address),
            WantedSteps(5, 30.0),
            exchange.private(tmp_path),
            count_steps=whole_steps,
            watch=told.append,
        )

    assert found.steps >= 5
    assert told == sorted(told)
    assert len(told) == len(service.orders) > 1
    assert found.duration_ns == round(told[-1] * 10**9)


def test_it_ends_at_its_limit(tmp_path: Path) -> None:
    """The recordings together last no longer, and the one with most steps is kept."""

    def answer(request, context):
        return sent(trace(1)) if request.duration_ms < 500 else empty()

    with serving(answer) as service:
        (found,) = record(
            addresses(service.address),
            WantedSteps(4, 2.0),
            exchange.private(tmp_path),
            count_steps=whole_steps,
        )

    assert found.steps == 1
    assert sum(order.duration_ms for order in service.orders) <= 2000


def test_a_service_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    """It took the order; nobody waits for ever."""
    over = threading.Event()

    def answer(request, context):
        over.wait(60)
        return b""

    with serving(answer) as service:
        with pytest.raises(UnreadableInput, match="did not answer"):
            record(
                addresses(service.address),
                WantedSteps(None, 0.01),
                exchange.private(tmp_path),
                count_steps=whole_steps,
                answer_s=0.2,
            )
        over.set()


def test_an_order_asks_for_what_the_agent_records(tmp_path: Path) -> None:
    """Levels of the tracers are those of the agent's windows, so that all views answer alike."""
    with serving(sent(trace(3))) as service:
        record(
            addresses(service.address),
            WantedSteps(None, 0.25),
            exchange.private(tmp_path),
            count_steps=whole_steps,
        )

    (order,) = service.orders
    options = order.opts
    assert (order.duration_ms, options.duration_ms, options.version) == (250, 250, 1)
    assert (options.host_tracer_level, options.device_tracer_level) == (2, 1)
    assert (options.python_tracer_level, options.include_dataset_ops) == (0, False)
    assert order.repository_root == str(tmp_path / "exchange")
