"""Functions that JAX or PyTorch compiles again and again are named, with what differs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, WHOLE_NS, found, process
from tfprobe.analysis.steps.recompilations import BreakSite, ChangeCount, Recompiled
from tfprobe.profile.compilations import TORCH_COMPILE, ArgumentChange

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


TORCH_STEP = replace(STEP, compiler=TORCH_COMPILE)


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("size at index 0", "mark_dynamic"),
        ("stride at index 1", "contiguous"),
        ("dtype", "Convert"),
        ("rank", "dimensions"),
        ("requires_grad", "detach"),
        ("global state", "mode"),
        ("value", "torch.tensor"),
        ("length", "torch.stack"),
        ("keys", "same keys"),
        ("type", "convert"),
        ("object", "outside of the loop"),
        ("guard", "TORCH_LOGS"),
    ],
)
def test_pytorch_has_remedies_of_its_own(what, word) -> None:
    """Each guard has another."""
    change = ChangeCount(4, ArgumentChange("x", what, "4", "another"))

    finding = found(
        "recompiling", processes=[process(recompiled=(replace(TORCH_STEP, changes=(change,)),))]
    )

    assert finding is not None
    assert "torch.compile" in finding.title
    assert word in finding.action


def test_what_does_not_hold_is_told_in_its_words() -> None:
    """Without a value where PyTorch says only what was before."""
    change = ChangeCount(4, ArgumentChange("n", "value", "4", "another"))
    function = replace(TORCH_STEP, changes=(change,))

    finding = found("recompiling", processes=[process(recompiled=(function,))])

    assert finding is not None
    assert finding.evidence[1].text == "n has another value than 4: 4 times"


def test_a_function_that_was_compiled_too_often_is_told() -> None:
    """It runs as Python since."""
    site = BreakSite("train_step", "Dynamo recompile limit exceeded", "", 1, None, is_skipped=True)

    finding = found("recompiling", processes=[process(recompiled=(TORCH_STEP,), breaks=(site,))])

    assert finding is not None
    assert any("run uncompiled" in evidence.text for evidence in finding.evidence)


def test_where_pytorch_tells_nothing_it_is_to_say_it() -> None:
    """Old releases, and another object each time."""
    unknown, others = replace(TORCH_STEP, changes=()), replace(TORCH_STEP, changes=())
    others = replace(others, new_functions=4)

    actions = [
        finding.action
        for function in (unknown, others)
        if (finding := found("recompiling", processes=[process(recompiled=(function,))]))
    ]

    assert "TORCH_LOGS" in actions[0]
    assert "outside of the loop" in actions[1]
