"""Functions that JAX compiles again and again are named, with what differs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, WHOLE_NS, found, process
from tfprobe.analysis.steps.recompilations import ChangeCount, Recompiled
from tfprobe.profile.compilations import ArgumentChange

ROWS = ArgumentChange("x", "shape", "float32[8,3]", "float32[5,3]")
STEP = Recompiled("train_step", 5, 100 * MS, 0, 0, (ChangeCount(4, ROWS),), "/home/ada/train.py:31")


def test_four_compilations_after_the_first_are_told() -> None:
    """All of their time, of the wall time of the process."""
    finding = found("recompiling", processes=[process(recompiled=(STEP,))])

    assert finding is not None
    assert (finding.gain.high_ns, finding.gain.of_ns) == (100 * MS, 2 * WHOLE_NS)
    assert finding.evidence[0].source == "/home/ada/train.py:31"
    assert finding.evidence[1].text == (
        "x has another shape, such as float32[8,3] and then float32[5,3]: 4 times"
    )


@pytest.mark.parametrize("changes", [{"count": 3}, {"further_ns": 10 * MS}])
def test_less_is_not(changes) -> None:
    """A partial last batch and a second data set are usual; and so is a hundredth of the time."""
    usual = replace(STEP, **changes)

    assert found("recompiling", processes=[process(recompiled=(usual,))]) is None


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("shape", "Pad"),
        ("shape, dtype", "Pad"),
        ("dtype", "asarray"),
        ("weak type", "Python number"),
        ("static value", "static argument"),
        ("structure", "same keys"),
        ("type", "before the call"),
        ("sharding", "device_put"),
    ],
)
def test_the_remedy_is_for_what_differs(what, word) -> None:
    """Each has another."""
    change = ChangeCount(4, replace(ROWS, what=what))

    finding = found(
        "recompiling", processes=[process(recompiled=(replace(STEP, changes=(change,)),))]
    )

    assert finding is not None
    assert word in finding.action


def test_a_function_that_is_made_anew_has_a_remedy_of_its_own() -> None:
    """No argument differs from one of another function."""
    lambdas = replace(STEP, new_functions=4, changes=())

    finding = found("recompiling", processes=[process(recompiled=(lambdas,))])

    assert finding is not None
    assert "outside of the loop" in finding.action
    assert finding.evidence[1].text == "of a new function: 4 times"


def test_cleared_caches_have_one_too() -> None:
    """The arguments are the same."""
    cleared = replace(STEP, unchanged=4, changes=())

    finding = found("recompiling", processes=[process(recompiled=(cleared,))])

    assert finding is not None
    assert "clear_caches" in finding.action


def test_where_the_reason_is_not_known_jax_is_to_say_it() -> None:
    """A function of very many arrays is not compared."""
    unknown = replace(STEP, changes=())

    finding = found("recompiling", processes=[process(recompiled=(unknown,))])

    assert finding is not None
    assert "JAX_EXPLAIN_CACHE_MISSES" in finding.action
