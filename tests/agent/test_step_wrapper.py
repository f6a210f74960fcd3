"""A step wrapper that is left before the call leaves nothing open."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agent import load

step_wrapper = load("core.step_wrapper")
loop_module = load("core.loop")
steps_file = load("core.steps_file")


class Sample:
    """A trace that has been started."""

    args = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012 - as in the agent

    def __init__(self) -> None:
        self.abandoned = 0

    def abandon(self) -> None:
        self.abandoned += 1


pytestmark = pytest.mark.usefixtures("state")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_started_trace_is_abandoned_if_the_call_is_not_reached(monkeypatch, error) -> None:
    """Ctrl-C in between goes to the job; an error of the agent does not, and the step runs
    untraced.
    """
    sample = Sample()
    times = iter([1, 2])

    def clock() -> int:
        time_ns = next(times)
        if time_ns == 2:
            raise error
        return time_ns

    monkeypatch.setattr(step_wrapper, "start_trace", lambda *_: sample)
    monkeypatch.setattr(step_wrapper.UNPATCHED, "monotonic_ns", clock)
    loop = loop_module.Loop(steps_file._Scratch(), 0, "function", "step", steps_file.HEADER_WORDS)
    step = step_wrapper.make(lambda *_: loop, None)(lambda _self: "done")

    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            step(object())
    else:
        assert step(object()) == "done"

    assert sample.abandoned == 1
    assert step_wrapper.THREAD.current.depth == 0


def test_a_step_inside_a_step_collects_its_instance_and_no_argument(monkeypatch) -> None:
    """The instance of a method may be a tf.function whose graph is wanted.

    A function's arguments are the job's own and are not inspected.
    """
    current = step_wrapper.THREAD.current
    monkeypatch.setattr(current, "depth", 1)
    monkeypatch.setattr(current, "collecting", [])
    around = step_wrapper.make(None, None)
    instance, owner = object(), object()

    assert around(lambda _self, value: value)(instance, 1) == 1
    assert around(lambda value: value, owner)(2) == 2

    assert current.collecting == [instance]
