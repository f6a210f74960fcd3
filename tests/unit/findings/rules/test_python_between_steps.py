"""The job's own Python between steps is told from a twentieth of the loop on, with its line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, found, loop, process, timing
from tests.support.subjects import line as python_line
from tfprobe.analysis.breakdown.python_lines import GapPython, PythonLine
from tfprobe.errors import Missing
from tfprobe.findings.finding import Severity
from tfprobe.findings.rule import TracedStep

# Of a loop of 1 s, 200 ms lie between steps.
EAGER = timing(kind="function", name="train_step")


def line(kind: str, ratio: float, calls: int = 1) -> PythonLine:
    return python_line("call", f"train.py:{round(100 * ratio)}", kind, ratio, calls)


def find(*lines: PythonLine, **changes):
    return found("python_between_steps", loop(timing=EAGER, python=GapPython(lines, 3), **changes))


def test_a_twentieth_of_the_loop_is_told() -> None:
    """The bound is the share of the watched gaps of what all gaps took."""
    finding = find(line("python", 0.25))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert finding.evidence[0].source == "train.py:25"


def test_less_is_not() -> None:
    """Nor where nobody watched."""
    assert find(line("python", 0.249)) is None
    assert found("python_between_steps", loop(timing=EAGER, python=Missing("not watched"))) is None


@pytest.mark.parametrize(
    ("kind", "title", "advised"),
    [
        ("sleep", "sleeps", "Remove the sleep"),
        ("subprocess", "starts other programs", "Popen"),
        ("fsync", "disk", "os.fsync"),
        ("collection", "garbage", "gc.collect()"),
        ("lock", "lock", "Hold the lock"),
        ("output", "writes", "every Nth step"),
        ("ops", "ops of JAX one by one", "compiled function"),
        ("python", "computes", "before the loop"),
    ],
)
def test_what_it_does_is_named(kind: str, title: str, advised: str) -> None:
    """Each has a remedy of its own."""
    finding = find(line(kind, 0.9))

    assert finding is not None
    assert finding.severity is not Severity.INFO
    assert title in finding.title
    assert advised in finding.action


@pytest.mark.parametrize("kind", ["wait", "network"])
def test_a_server_that_waits_for_requests_is_not_alarmed(kind: str) -> None:
    """It is told what the time is, without alarm."""
    finding = find(line(kind, 0.9))

    assert finding is not None
    assert finding.severity is Severity.INFO


def test_of_several_like_lines_none_is_most() -> None:
    """Then all of them are the bound, and they are Python, whatever one does."""
    finding = find(line("sleep", 0.3), line("python", 0.28), line("fsync", 0.25))

    assert finding is not None
    assert finding.title == "Between steps Python computes"
    assert round(finding.gain.high_ratio, 6) == round(0.83 * 0.2, 6)


@pytest.mark.parametrize(("calls", "is_told"), [(2, False), (256, True)])
def test_one_read_of_a_loss_is_no_element_wise_read(calls: int, is_told: bool) -> None:
    """host_sync is about that."""
    assert (find(line("reads", 0.9, calls)) is not None) is is_told


def test_keras_own_loop_and_short_gaps_have_other_rules() -> None:
    """What lies around each step whatever one does is no finding."""
    python = GapPython((line("python", 0.9),), 3)
    short = timing(kind="function", usual_gap_ns=0.09 * MS)

    assert found("python_between_steps", loop(python=python)) is None
    assert found("python_between_steps", loop(python=python, timing=short)) is None


def test_the_call_of_the_step_is_none_of_it() -> None:
    """What calls on that line take is; the line itself only runs the step."""
    own, called = line("python", 0.9), line("python", 0.9)
    own = replace(own, what="<module> itself")
    step = own.source

    assert found("python_between_steps", _stepping(own, step)) is None
    assert found("python_between_steps", _stepping(called, step)) is not None
    assert found("python_between_steps", _stepping(own, "train.py:99")) is not None


def _stepping(use: PythonLine, step_source: str):
    return loop(timing=EAGER, python=GapPython((use,), 3, step_source))


def _inside(*lines: PythonLine | Missing, steps: int = 2):
    """Return the finding of a loop of PyTorch, whose steps of 8 ms are a loop of 1 s."""
    known = lines[0] if lines and isinstance(lines[0], Missing) else lines
    updates = timing(kind="optimizer_step", name="SGD")
    traced = tuple(TracedStep(step, "capture") for step in range(steps))
    return found(
        "python_between_steps",
        loop(timing=updates, inside=known, is_pytorch=True, traced_steps=traced),
    )


@pytest.mark.parametrize(("steps", "severity"), [(1, Severity.WARNING), (2, Severity.CRITICAL)])
def test_one_traced_step_alone_is_said_and_alarms_less(steps: int, severity: Severity) -> None:
    """The process may have lost its CPU in it, which nothing tells from slow Python."""
    finding = _inside(line("python", 0.9), steps=steps)

    assert finding is not None
    assert finding.severity is severity
    texts = [evidence.text for evidence in finding.evidence]
    assert ("from one traced step" in texts) is (steps == 1)


def test_what_pytorch_does_between_updates_is_inside_of_steps() -> None:
    """The bound is the share of the steps."""
    finding = _inside(line("fsync", 0.0625))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert finding.title == "Inside steps Python waits for the disk"
    assert finding.evidence[0].source == "train.py:6"
    assert _inside(line("fsync", 0.0624)) is None
    assert _inside() is None
    assert _inside(Missing("no stacks")) is None


@pytest.mark.parametrize(
    ("calls", "often"), [(0, ""), (1, ", 1 time in a step"), (2, ", 2 times in a step")]
)
def test_what_is_no_call_is_not_told_to_happen_zero_times(calls: int, often: str) -> None:
    """Such as the time that Python itself takes in a function."""
    use = line("python", 0.3, calls=calls)

    finding = _inside(use)

    assert finding is not None
    assert finding.evidence[0].text == use.what + often


def test_reading_many_values_of_pytorch_has_its_own_advice() -> None:
    """All of them at once, and norms of gradients not at all."""
    finding = _inside(line("reads", 0.3, calls=24))

    assert finding is not None
    assert (finding.title, finding.part) == (
        "Inside steps Python reads many values of tensors",
        "sync",
    )
    assert "clip_grad_norm_" in finding.action


def test_ops_between_gradients_are_not_told_twice() -> None:
    """A program that runs op by op is told so by eager_loop; its other lines are told here."""
    eager = process(runs_jax_eagerly=True)

    update = replace(line("python", 0.5), runs_ops=True)

    assert find(update, process=eager) is None
    finding = find(update, line("python", 0.4), process=eager)

    assert finding is not None
    assert finding.evidence[0].source == "train.py:40"


def test_gaps_in_which_ops_are_compiled_are_no_lines() -> None:
    """Of a loop of 1 s, 100 gaps of 0.5 ms are the job's own Python, and 150 ms compile."""
    eager = process(runs_jax_eagerly=True)
    usual = replace(EAGER, usual_gap_ns=0.5 * MS)

    found_usual = found(
        "python_between_steps",
        loop(timing=usual, python=GapPython((line("python", 1.0),), 3), process=eager),
    )

    assert found_usual is not None
    assert found_usual.gain.high_ns == round(usual.steps * 0.5 * MS)
