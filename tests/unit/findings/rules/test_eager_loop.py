"""An eager loop is told where a tenth of the cycle is outside ops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import (
    MS,
    WHOLE_NS,
    account,
    found,
    loop,
    ops,
    parts,
    process,
    timing,
)
from tfprobe.analysis.account.ledger import Item
from tfprobe.analysis.breakdown.python_lines import GapPython, LineKind, PythonLine
from tfprobe.analysis.system.application import ActivityInSteps
from tfprobe.analysis.system.thread_times import StepThreads
from tfprobe.errors import Missing
from tfprobe.findings.finding import Severity
from tfprobe.findings.rule import TracedStep

EAGER = timing(kind="eager")
TWO = (TracedStep(3, "3.pb"), TracedStep(9, "9.pb"))


def test_a_tenth_outside_ops_is_told() -> None:
    """Between ops there is only Python, which a function does once."""
    finding = found("eager_loop", loop(timing=EAGER, parts=parts(idle=0.1)))

    assert finding is not None
    assert "@tf.function" in finding.action


def test_less_is_not() -> None:
    """Large ops are no faster in a function."""
    assert found("eager_loop", loop(timing=EAGER, parts=parts(idle=0.099))) is None


def test_dispatch_within_ops_is_won_too() -> None:
    """Of 20 ops each has 10 us in its own time: 200 us of a step of 10 ms, beside 3 ms outside."""
    of_ops = ops(per_step=20.0, busy_ns=5.0 * MS, step_ns=10.0 * MS)

    with_ops = found("eager_loop", loop(timing=EAGER, parts=parts(idle=0.3), ops=of_ops))
    unknown = loop(timing=EAGER, parts=parts(idle=0.3), ops=Missing("no step was traced"))
    without = found("eager_loop", unknown)

    assert with_ops is not None
    assert without is not None
    more_ns = with_ops.gain.high_ns - without.gain.high_ns
    assert more_ns == pytest.approx(0.02 * EAGER.regular_step_ns, rel=1e-6)


def _more_ms(**facts) -> float:
    """Return by how much a step of 8 ms, 3 ms of them outside ops, can win more in a function."""
    known = found("eager_loop", loop(timing=EAGER, parts=parts(idle=0.3), **facts))
    without = found("eager_loop", loop(timing=EAGER, parts=parts(idle=0.3), ops=Missing("none")))
    assert known is not None
    assert without is not None
    return (known.gain.high_ns - without.gain.high_ns) / EAGER.steps / MS


def test_an_op_that_lost_its_cpu_is_not_as_long_in_a_function() -> None:
    """Of 5 ms of ops, 1 ms is there in each traced step."""
    of_ops = ops(per_step=20.0, busy_ns=5.0 * MS, undisturbed_ns=1.0 * MS)

    assert _more_ms(ops=of_ops, traced_steps=TWO) == pytest.approx(4.0)


def test_one_traced_step_does_not_show_which_ops_lost_their_cpu() -> None:
    """The thread had none for a quarter of the time: up to 2 ms of 8, and 0.2 of dispatch."""
    of_ops = ops(per_step=20.0, busy_ns=5.0 * MS, undisturbed_ns=4.9 * MS)
    waited = process(threads=StepThreads(0.5, 0.25, True, ()))

    assert _more_ms(ops=of_ops, process=waited, traced_steps=TWO[:1]) == pytest.approx(2.2)
    assert _more_ms(ops=of_ops, process=waited, traced_steps=TWO) == pytest.approx(0.2)
    assert _more_ms(ops=of_ops, traced_steps=TWO[:1]) == pytest.approx(0.2)


def test_ends_of_epochs_run_eagerly_with_the_model() -> None:
    """As metrics are computed there; the return of the last call stays."""
    ends = [Item("fit itself", "trainer.py:9", 30 * MS, times=9), Item("the return", "", 50 * MS)]
    switch = {"settings": {"run_eagerly": True}}
    with_ends = process(account=account(WHOLE_NS, epoch_ends=ends), **switch)

    told, without = (
        found("eager_loop", loop(timing=timing(kind="fit"), process=each, parts=parts(idle=0.2)))
        for each in (with_ends, process(**switch))
    )

    assert told is not None
    assert without is not None
    assert told.gain.high_ns - without.gain.high_ns == 30 * MS


def test_functions_that_are_made_to_run_eagerly_are_told() -> None:
    """With the switch that makes them."""
    forced = process(settings={"eager": True})

    finding = found("eager_loop", loop(process=forced, parts=parts(idle=0.2)))

    assert finding is not None
    assert "run_functions_eagerly" in finding.action


def test_a_model_that_is_compiled_to_run_eagerly_is_told() -> None:
    """Its steps are, and functions beside it are not."""
    forced = process(settings={"eager": False, "run_eagerly": True})

    of_model = found(
        "eager_loop", loop(timing=timing(kind="fit"), process=forced, parts=parts(idle=0.2))
    )
    beside = loop(timing=timing(kind="function"), process=forced, parts=parts(idle=0.2))

    assert of_model is not None
    assert "run_eagerly=True" in of_model.action
    assert found("eager_loop", beside) is None


def test_a_function_is_not() -> None:
    """Whatever its steps do outside ops."""
    assert found("eager_loop", loop(parts=parts(idle=0.9))) is None


GRADIENT = timing(kind="grad", name="loss")


def _between(*, runs_ops: bool) -> GapPython:
    line = PythonLine("update", "train.py", 16, LineKind.PYTHON, 0.5, 1, runs_ops=runs_ops)
    return GapPython((line,), 3)


def test_gradients_of_jax_outside_a_compiled_function_are_told() -> None:
    """The step is compiled as a whole instead; also cycles in which ops are compiled count."""
    xla = ActivityInSteps("xla", "add", 7, 30 * MS)
    lower = ActivityInSteps("lower", "add", 7, 3 * MS)
    eager = process(activities=(xla, lower), is_of_jax=True, runs_jax_eagerly=True)

    finding = found("eager_loop", loop(timing=GRADIENT, process=eager, parts=parts(idle=0.9)))

    assert finding is not None
    assert "jax.jit" in finding.action
    assert finding.gain.high_ns >= 0.9 * (GRADIENT.regular_step_ns + GRADIENT.regular_gap_ns)
    (compiled,) = [each for each in finding.evidence if "compiled" in each.text]
    assert compiled.text == "JAX compiled 7 programs, most of a single op"
    assert compiled.time_ns == 33 * MS


def test_lines_between_gradients_that_run_no_ops_stay() -> None:
    """Half of the time between steps prepares a batch with NumPy."""
    with_ops, without = (
        found(
            "eager_loop",
            loop(timing=GRADIENT, parts=parts(idle=0.9), python=_between(runs_ops=runs_ops)),
        )
        for runs_ops in (True, False)
    )

    assert with_ops is not None
    assert without is not None
    less_ns = with_ops.gain.high_ns - without.gain.high_ns
    assert less_ns == pytest.approx(0.5 * GRADIENT.regular_gap_ns, rel=1e-6)


def test_gradients_of_large_programs_are_not() -> None:
    """The function that is differentiated is compiled, and takes nearly all of the time."""
    assert found("eager_loop", loop(timing=GRADIENT, parts=parts(idle=0.09))) is None


@pytest.mark.parametrize(("busy_ms", "is_found"), [(1.0, True), (7.9, False)])
def test_gradients_without_times_are_told_without_a_bound(
    busy_ms: float, *, is_found: bool
) -> None:
    """Nothing waited for them; the traced ones say what runs outside ops."""
    untimed = replace(GRADIENT, undivided=Missing("its calls only queue its steps"))
    of_ops = ops(busy_ns=busy_ms * MS, step_ns=8.0 * MS)

    finding = found("eager_loop", loop(timing=untimed, ops=of_ops))

    assert (finding is not None) == is_found
    if finding is not None:
        assert isinstance(finding.gain, Missing)
        assert finding.severity is Severity.WARNING


def test_a_program_that_turns_jit_off_is_told() -> None:
    """Whatever it compiles runs op by op."""
    off = process(settings={"jax": {"jax_disable_jit": True}})

    finding = found(
        "eager_loop", loop(timing=timing(kind="jit"), process=off, parts=parts(idle=0.5))
    )

    assert finding is not None
    assert finding.action == "Remove jax_disable_jit."
