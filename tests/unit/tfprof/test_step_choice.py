"""Which steps a ProfileContext traces: those that TensorFlow's traces."""

from __future__ import annotations

import pytest

from tfprobe.tfprof.profile_context import StepChoice


def traced(choice: StepChoice, steps: range, *, fetches=("loss",), coverage_ratio=0.0) -> list[int]:
    """Return the steps that are traced, of steps that fetch one after the other in turn."""
    found = []
    for step in steps:
        name = fetches[step % len(fetches)]
        if choice.may_want(step) and choice.traces(step, lambda: name, lambda: coverage_ratio):  # noqa: B023
            found.append(step)
        choice.end_step()
    return found


def test_named_steps_are_traced() -> None:
    """No others."""
    assert traced(StepChoice([3, 5, 900], []), range(1000)) == [3, 5, 900]


def test_without_names_chance_decides_until_half_is_known() -> None:
    """The first after the warm-up, then those that TensorFlow's generator draws below 100."""
    expected = [11, 35, 43, 46, 48, 55, 56, 66, 70, 77, 90]

    assert traced(StepChoice(None, None), range(300)) == expected
    assert traced(StepChoice(None, None), range(300), coverage_ratio=0.5) == [11]


def test_each_set_of_fetches_is_traced_once() -> None:
    """Whatever is known of the graph."""
    found = traced(
        StepChoice(None, None), range(40), fetches=("loss", "train", "eval"), coverage_ratio=1
    )

    assert found == [11, 12, 13]


def test_no_more_than_101_steps_are_traced() -> None:
    """The limit is looked at before a step is counted, as in TensorFlow."""
    found = traced(StepChoice(None, None), range(300), fetches=[f"{at}" for at in range(300)])

    assert len(found) == 101


@pytest.mark.parametrize("named", [[], None])
def test_the_next_step_is_the_next_only(named) -> None:
    """Both what is traced and what is dumped."""
    choice = StepChoice(named, [])
    choice.trace_next()
    choice.dump_next()

    first = choice.may_want(0), choice.dumps(0), choice.traces(0, str, float)
    choice.end_step()
    second = choice.may_want(1), choice.dumps(1), choice.traces(1, str, float)

    assert (first, second) == ((True, True, True), (False, False, False))


def test_dumping_is_no_tracing() -> None:
    """By default after step 100."""
    choice = StepChoice([], None)

    assert [step for step in range(300) if choice.dumps(step)] == [100]
    assert not choice.traces(100, str, float)
