"""Several runs of a Session in each turn of a loop are told where one would do."""

from __future__ import annotations

from tests.support.subjects import MS, STEPS, found, loop, ops, timing
from tests.support.subjects import line as python_line
from tfprobe.analysis.breakdown.python_lines import GapPython
from tfprobe.findings.finding import Subject
from tfprobe.findings.rule import NO_CAPTURE

LINE = python_line("<listcomp>", "train.py:21", "python", 1.0, 1)


def run(name: str, *, steps: int = STEPS, step_ms: float = 1, cycle_ms: float = 10, **changes):
    own = timing(
        kind="session_run",
        name=name,
        steps=steps,
        regular_step_ns=round(steps * step_ms * MS),
        usual_step_ns=step_ms * MS,
        mean_cycle_ns=cycle_ms * MS,
    )
    subject = Subject("node7", 4711, None, "session_run", name)
    return loop(**{"subject": subject, "timing": own, "ops": NO_CAPTURE, **changes})


def test_a_run_for_each_metric_is_told_with_the_line() -> None:
    """The bound is what the runs of the metrics take but for their ops, by the traced one."""
    train = run("train", step_ms=6)
    traced = run(
        "Mean:0",
        python=GapPython((LINE,), 1, "train.py:21"),
        ops=ops(step_ns=1.0 * MS, busy_ns=0.25 * MS),
    )

    finding = found("many_runs", train, traced, run("Mean_1:0"), processes=[train.process])

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.15
    assert finding.evidence[0].source == "train.py:21"
    assert finding.title == "Each iteration calls Session.run 3 times"


def test_a_step_and_one_look_are_not() -> None:
    """Two runs a turn are usual; and of two that train neither can wait."""
    train = run("train", step_ms=6)
    assigns = [run("Assign:0"), run("generator")]

    assert found("many_runs", train, run("Mean:0"), processes=[train.process]) is None
    assert found("many_runs", train, *assigns, processes=[train.process]) is None


def test_runs_that_do_not_take_turns_are_not() -> None:
    """An evaluation of as many steps comes after training, each run shortly behind the other."""
    train = run("train", step_ms=6)
    evaluated = [run(f"Mean_{at}:0", cycle_ms=1.1) for at in range(3)]

    assert found("many_runs", train, *evaluated, processes=[train.process]) is None


def test_runs_of_other_counts_are_not() -> None:
    """What is fetched at every tenth step is rare already."""
    train = run("train", step_ms=6)
    rare = [run(f"Mean_{at}:0", steps=STEPS // 2) for at in range(2)]

    assert found("many_runs", train, *rare, processes=[train.process]) is None
