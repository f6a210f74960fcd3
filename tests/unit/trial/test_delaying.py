"""Arms with delays run beside bases that time the same parts, and end once the slope is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfprobe.analysis.compare.delays import Criticality, DelayMarks, DelaySlope
from tfprobe.analysis.compare.trials import Marks, Weights
from tfprobe.errors import Missing
from tfprobe.findings.trials import AppliedFix, Trial
from tfprobe.runs.layout import RunFolder
from tfprobe.trial import conduct
from tfprobe.trial.arm_files import ArmFiles
from tfprobe.trial.arms import BASE, ArmProcess, TriedJob
from tfprobe.trial.conduct import TrialLimits
from tfprobe.trial.delaying import DelayConductor
from tfprobe.trial.judging import BaseFailed
from tfprobe.trial.workspace import Isolation, Workspace

MS = 1_000_000
UNITS = 400
STEP_MS = 10.0
PART_MS = {"input": 4.0, "between": 3.0}


class Machine:
    """Stands in for real processes: the slope of each part, and what goes wrong."""

    def __init__(self) -> None:
        self.slopes = {"input": 1.0, "between": 0.0}
        self.failing = ""
        self.order: list[str] = []
        self.at_once: list[int] = []

    def left(self, arm: Any, order: int) -> ArmProcess:
        """Return what became of one process."""
        delays_ms = {
            one.fix.part: PART_MS.get(one.fix.part, 0.0) * one.value / 100 for one in arm.fixes
        }
        longer = sum(self.slopes.get(part, 0) * delay for part, delay in delays_ms.items())
        step_ns = (STEP_MS + longer + order % 2 / 100) * MS
        units = np.arange(1, UNITS + 1, dtype=np.int64)
        mono = (units * step_ns).astype(np.int64)
        delays = {
            part: (DelayMarks(mono, units * int(PART_MS[part] * MS), units * int(delay * MS)),)
            for part, delay in delays_ms.items()
            if part in PART_MS
        }
        notes = {one.fix.id: AppliedFix(0, {"not here": 1}) for one in arm.fixes}
        weights = Weights(16, ("same",), np.array([1.0]))
        files = ArmFiles(
            ("fit", "model"), 0, Marks(mono, mono // 2, units), notes, weights, delays=delays
        )
        tail = self.failing if "+" in arm.name else ""
        return ArmProcess(arm, order, 1 if tail else 0, files, tail, None)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Start no processes."""
    found = Machine()
    running: list[object] = []

    class FakeArm:
        def __init__(self, _job, arm, order, _trial, _flags) -> None:
            self.arm, self.order = arm, order
            found.order.append(arm.name)
            running.append(self)

        def wait(self, _deadline) -> ArmProcess:
            found.at_once.append(len(running))
            running.clear()
            return found.left(self.arm, self.order)

        def end(self) -> None:
            """Nothing runs."""

    monkeypatch.setattr(conduct, "StartedArm", FakeArm)
    return found


def trial(*parts: str, is_busy: bool = False, budget_s: float = 600) -> Trial:
    place = Workspace(Isolation.COPY, Path("/nowhere"), (), Path("/nowhere"))
    conductor = DelayConductor(
        TriedJob(("python", "train.py"), {}, place),
        TrialLimits(budget_s),
        is_busy=is_busy,
        pressure_ratio=0.0,
        watch=lambda _what, _left_s: None,
    )
    return conductor.conduct_delays(parts, None)


def test_delays_run_forward_and_backward_between_two_bases(machine) -> None:
    """The base times the part, too, so that all arms are alike but for the delay."""
    trial("input")

    half, quarter = "input+50%", "input+25%"
    assert machine.order == [BASE, quarter, half, half, quarter, BASE]


def test_the_slope_and_the_share_give_a_bound(machine) -> None:
    """4 of 10 ms that everything waits for."""
    found = trial("input")

    (outcome,) = found.delays
    assert outcome.verdict is Criticality.CRITICAL
    assert isinstance(outcome.slope, DelaySlope)
    assert outcome.slope.most.ratio == pytest.approx(0.4, abs=0.02)
    assert found.fixes == ()
    assert found.base.unit_ns == pytest.approx(STEP_MS * MS, rel=0.02)


def test_each_part_has_a_slope_of_its_own(machine) -> None:
    """And a part that is named twice is slowed down once."""
    critical, slack = trial("input", "between", "input").delays

    assert (critical.part, critical.verdict) == ("input", Criticality.CRITICAL)
    assert (slack.part, slack.verdict) == ("between", Criticality.SLACK)


def test_on_a_busy_machine_all_delays_run_at_once(machine) -> None:
    """They meet the same load."""
    (outcome,) = trial("input", is_busy=True).delays

    assert machine.order[1:4] == [BASE, "input+25%", "input+50%"]
    assert machine.at_once[:2] == [1, 3]
    assert isinstance(outcome.slope, DelaySlope)
    assert outcome.slope.slope.ratio == pytest.approx(1, abs=0.05)


def test_a_part_that_the_job_has_not_says_why(machine) -> None:
    """After the first base alone: no delay is run."""
    (outcome,) = trial("step").delays

    assert outcome.verdict is Criticality.NOT_APPLIED
    assert outcome.skipped == ("not here",)
    assert machine.order == [BASE]


def test_a_job_that_fails_with_a_delay_is_told(machine) -> None:
    """With its last words."""
    machine.failing = "TimeoutError: too slow"

    (outcome,) = trial("input").delays

    assert outcome.slope == Missing("the job failed with it: TimeoutError: too slow")


def test_a_job_that_fails_without_a_delay_gets_no_trial(machine, monkeypatch, tmp_path) -> None:
    """As with fixes."""
    run = RunFolder(tmp_path)
    monkeypatch.setattr(
        machine, "left", lambda arm, order: ArmProcess(arm, order, 3, Missing("-"), "no", run)
    )

    with pytest.raises(BaseFailed, match="exit status 3"):
        trial("input")


def test_what_does_not_fit_into_the_budget_is_named(machine) -> None:
    """Nothing is started that could not end in time."""
    found = trial("input", budget_s=0.0)

    assert found.delays == ()
    ((name, why),) = found.not_tried
    assert name == "a delay of input"
    assert "of the budget 0 s are left" in why
