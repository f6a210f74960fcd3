"""Recordings last as long as it takes to see the wanted steps, and no longer than allowed."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest

from tests.support.profiler_service import empty, sent, serving, trace
from tfprobe.attach.service import exchange
from tfprobe.attach.service.client import Address, ProfileRequest, ServiceClient, addresses
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


class _InterruptedChannel:
    """A channel in which a signal arrives while gRPC begins a call, and while it closes."""

    def __init__(self, finished: list[str]) -> None:
        """Take where to note what was finished."""
        self._finished = finished

    def unary_unary(self, *_words: Any, **_named: Any) -> Any:
        """Return itself as what makes calls."""
        return self

    def future(self, *_words: Any, **_named: Any) -> None:
        """Begin a call."""
        signal.raise_signal(signal.SIGTERM)
        self._finished.append("call")

    def close(self) -> None:
        """Close."""
        signal.raise_signal(signal.SIGTERM)
        self._finished.append("channel")


def test_a_signal_waits_for_what_grpc_does_at_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that was cut off as it began made closing the channel wait for ever."""
    finished: list[str] = []

    def end(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    monkeypatch.setattr(grpc, "insecure_channel", lambda *_, **__: _InterruptedChannel(finished))
    before = signal.signal(signal.SIGTERM, end)
    try:
        client = ServiceClient(Address("localhost", 1))
        with pytest.raises(SystemExit):
            client.begin(ProfileRequest("a", 1.0, exchange.private(tmp_path)))
        with pytest.raises(SystemExit):
            client.close()
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)

    assert finished == ["call", "channel"]
