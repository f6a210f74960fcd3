"""Arms run in an order that a drift cannot decide, and are judged by what they left."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfprobe.analysis.compare.trials import Losses, Marks, SameResults, TrialGain, Verdict, Weights
from tfprobe.errors import Missing
from tfprobe.findings.fixes import chosen
from tfprobe.findings.trials import SIDE_BY_SIDE, AppliedFix, Trial
from tfprobe.runs.layout import RunFolder
from tfprobe.trial import conduct
from tfprobe.trial.arm_files import ArmFiles
from tfprobe.trial.arms import BASE, Arm, ArmProcess, TriedJob, warm_units
from tfprobe.trial.conduct import Conductor, Exclude, TrialLimits
from tfprobe.trial.judging import BaseFailed
from tfprobe.trial.workspace import Isolation, Workspace

MS = 1_000_000


class Machine:
    """Stands in for real processes: how long a step takes in each arm, and what goes wrong."""

    def __init__(self) -> None:
        self.step_ms: dict[str, float] = {BASE: 10.0}
        self.failing: dict[str, str] = {}
        self.killed: set[str] = set()
        self.not_applied: set[str] = set()
        self.weights: dict[str, float] = {}
        self.losses: dict[str, float] = {}
        self.units = 400
        self.order: list[str] = []
        self.at_once: list[int] = []
        self.ends_after: int | None = None
        self.run: RunFolder | None = None
        self.now_ns = 0
        self.start_s = 0.0
        self.seconds: list[float] = []
        self._scatter = itertools.cycle((1.0, 1.01, 0.99))

    def left(self, arm: Any, order: int) -> ArmProcess:
        """Return what became of one process."""
        step_ns = self.step_ms.get(arm.name, 10.0) * MS * next(self._scatter)
        units = np.arange(1, self.units + 1, dtype=np.int64)
        mono = self.now_ns + round(self.start_s * 1e9) + (units * step_ns).astype(np.int64)
        notes = {
            one.fix.id: AppliedFix(0 if one.fix.id in self.not_applied else 3, {"too early": 1})
            for one in arm.fixes
        }
        value = self.weights.get(arm.name, 1.0)
        files = ArmFiles(
            unit=("fit", "model"),
            start_mono_ns=self.now_ns,
            marks=Marks(mono, mono // 2, units),
            fixes=notes,
            weights=Weights(16, (value.hex(),), np.array([value])),
            losses=Losses({16: self.losses.get(arm.name, 0.5)}),
        )
        tail = self.failing.get(arm.name, "")
        status = -9 if arm.name in self.killed else 1 if tail else 0
        return ArmProcess(arm, order, status, files, tail, self.run)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Start no processes."""
    found = Machine()
    running: list[object] = []

    class FakeArm:
        def __init__(self, _job, arm, order, trial, _flags) -> None:
            if found.ends_after is not None and len(found.order) >= found.ends_after:
                raise KeyboardInterrupt
            self.arm, self.order = arm, order
            found.order.append(arm.name)
            found.seconds.append(trial["seconds"])
            running.append(self)
            self.is_ended = False

        def wait(self, _deadline) -> ArmProcess:
            found.at_once.append(len(running))
            running.clear()
            self.is_ended = True
            return found.left(self.arm, self.order)

        def end(self) -> None:
            self.is_ended = True

    monkeypatch.setattr(conduct, "StartedArm", FakeArm)
    return found


def trial(
    machine: Machine,
    *words: str,
    is_busy: bool = False,
    budget_s: float = 600,
    exclude: Exclude | None = None,
) -> Trial:
    del machine
    place = Workspace(Isolation.COPY, Path("/nowhere"), (), Path("/nowhere"))
    job = TriedJob(("python", "train.py"), {}, place)
    conductor = Conductor(
        job,
        TrialLimits(budget_s),
        is_busy=is_busy,
        pressure_ratio=0.0,
        watch=lambda _what, _left_s: None,
    )
    return conductor.conduct([chosen(word) for word in words], None, {}, exclude)


def test_arms_run_forward_and_backward_between_two_bases(machine) -> None:
    """So that a machine that gets slower meets all alike."""
    machine.step_ms |= {"prefetch": 2.0, "cache": 4.0}

    trial(machine, "prefetch", "cache")

    assert machine.order[:6] == [BASE, "prefetch", "cache", "cache", "prefetch", BASE]


def test_a_gain_is_measured_and_results_are_compared(machine) -> None:
    """A step of 2 ms in place of 10 is a gain of 80 %."""
    machine.step_ms["prefetch"] = 2.0

    found = trial(machine, "prefetch")

    (outcome,) = found.fixes
    assert outcome.verdict is Verdict.WON
    assert isinstance(outcome.gain, TrialGain)
    assert outcome.gain.wall.ratio == pytest.approx(0.8, abs=0.02)
    assert not isinstance(outcome.results, Missing)
    assert outcome.results.same is SameResults.IDENTICAL
    assert found.base.unit_ns == pytest.approx(10 * MS, rel=0.02)


def test_what_does_nothing_is_tried_until_three_rounds_are_over(machine) -> None:
    """And is not told as a gain of 0."""
    found = trial(machine, "prefetch")

    (outcome,) = found.fixes
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.processes == 6
    assert found.base.processes == 4


def test_a_fix_that_was_applied_nowhere_says_why(machine) -> None:
    """After one process: another one would say nothing new."""
    machine.not_applied = {"prefetch"}

    found = trial(machine, "prefetch")

    (outcome,) = found.fixes
    assert outcome.verdict is Verdict.NOT_APPLIED
    assert outcome.processes == 1
    assert "too early" in outcome.applied["prefetch"].skipped


@pytest.mark.parametrize("is_busy", [False, True])
def test_what_the_first_base_excludes_is_not_run(machine, tmp_path, is_busy) -> None:
    """Where nothing was recorded before; the others are tried as if it had not been named."""
    machine.run = RunFolder(tmp_path)
    machine.step_ms["prefetch"] = 2.0

    found = trial(
        machine, "cache", "prefetch", is_busy=is_busy, exclude=lambda _run: {"cache": "no data"}
    )

    assert "cache" not in machine.order
    assert [(one.name, one.verdict) for one in found.fixes] == [
        ("prefetch", Verdict.WON),
        ("cache", Verdict.NOT_APPLIED),
    ]
    assert found.fixes[1].gain == Missing("no data")
    assert found.not_tried == ()


def test_where_everything_is_excluded_only_the_base_runs(machine, tmp_path) -> None:
    """And the reasons are the answer."""
    machine.run = RunFolder(tmp_path)

    found = trial(machine, "cache", is_busy=True, exclude=lambda _run: {"cache": "no data"})

    assert machine.order == [BASE]
    assert [one.verdict for one in found.fixes] == [Verdict.NOT_APPLIED]


def test_a_fix_that_breaks_the_job_is_told_and_the_others_go_on(machine) -> None:
    """With the last line that the job printed."""
    machine.failing["prefetch"] = "Traceback ...\nValueError: no"
    machine.step_ms["cache"] = 2.0

    broken, other = trial(machine, "prefetch", "cache").fixes

    assert broken.gain == Missing("the job failed with it: ValueError: no")
    assert machine.order.count("prefetch") == 1
    assert other.verdict is Verdict.WON


def test_a_killed_arm_is_told_by_its_signal(machine) -> None:
    """What it printed before says nothing of that."""
    machine.failing["prefetch"] = "I0000 port.cc: oneDNN is on."
    machine.killed.add("prefetch")

    (broken,) = trial(machine, "prefetch").fixes

    assert broken.gain == Missing("the job failed with it: signal 9")


def test_other_weights_are_told(machine) -> None:
    """Whatever was won."""
    machine.step_ms["prefetch"] = 2.0
    machine.weights["prefetch"] = 2.0

    (outcome,) = trial(machine, "prefetch").fixes

    assert not isinstance(outcome.results, Missing)
    assert outcome.results.same is SameResults.DIFFERENT


def test_losses_are_compared_beside_the_weights(machine) -> None:
    """They may differ where the weights do not yet."""
    machine.step_ms["prefetch"] = 2.0
    machine.losses["prefetch"] = 0.5 * (1 + 1e-7)

    (outcome,) = trial(machine, "prefetch").fixes

    assert not isinstance(outcome.results, Missing)
    assert not isinstance(outcome.losses, Missing)
    assert outcome.results.same is SameResults.IDENTICAL
    assert outcome.losses.same is SameResults.ROUNDING


def test_a_job_that_fails_without_a_fix_gets_no_trial(machine, tmp_path) -> None:
    """Its status and its last words are told."""
    machine.failing[BASE] = "FileNotFoundError: data.csv"
    machine.run = RunFolder(tmp_path)

    with pytest.raises(BaseFailed, match=r"exit status 1.*data\.csv"):
        trial(machine, "prefetch")

    assert machine.order == [BASE]


def test_a_job_that_was_not_started_is_not_to_blame(machine) -> None:
    """There is not even the directory of a run."""
    machine.failing[BASE] = "tfprobe: [Errno 22] Invalid argument: '/data'"

    with pytest.raises(BaseFailed, match=r"not started\. tfprobe: .*/data"):
        trial(machine, "prefetch")


def test_a_budget_that_ends_before_the_base_is_warm_is_told_as_such(machine) -> None:
    """More steps of the job would not help."""
    machine.units = 20

    with pytest.raises(BaseFailed, match="budget of 0 s ended") as failed:
        trial(machine, "prefetch", budget_s=0)

    assert "--budget" in str(failed.value.hint)


def test_a_job_of_few_steps_is_too_short(machine) -> None:
    """16 for the warm-up, and 16 that are measured."""
    machine.units = 20

    with pytest.raises(BaseFailed, match="too short"):
        trial(machine, "prefetch")


def test_on_a_busy_machine_an_arm_runs_beside_two_bases(machine) -> None:
    """All three meet the same load."""
    machine.step_ms["prefetch"] = 2.0

    found = trial(machine, "prefetch", is_busy=True)

    assert machine.order[1:4] == [BASE, "prefetch", BASE]
    assert machine.at_once[:2] == [1, 3]
    assert found.order == SIDE_BY_SIDE


def test_a_slow_start_gives_more_time_in_which_all_are_warm(machine) -> None:
    """Processes that start at once are warm one after the other, most where CPUs are wanted."""
    machine.start_s = 12.0

    trial(machine, "prefetch", is_busy=True)

    alone, *together = machine.seconds
    assert all(seconds >= 2 * alone + machine.start_s for seconds in together)


def test_what_won_is_tried_together(machine) -> None:
    """As long as that wins more: fixes of other parts, the best first."""
    machine.step_ms |= {
        "prefetch": 5.0,
        "steps_per_execution": 4.0,
        "steps_per_execution+prefetch": 1.0,
    }

    found = trial(machine, "prefetch", "steps_per_execution")

    assert found.combined is not None
    assert found.combined.name == "steps_per_execution=16 + prefetch"
    assert isinstance(found.combined.gain, TrialGain)
    assert found.combined.gain.wall.ratio == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("words", "units"),
    [
        (("prefetch",), 16),
        (("steps_per_execution=32", "prefetch"), 32),
        (("steps_per_execution=5",), 20),
        (("steps_per_execution=4096",), 16),
    ],
)
def test_weights_are_compared_where_all_arms_pass(words, units) -> None:
    """A call of 32 steps has no weights after 16."""
    arms = [Arm(word, (chosen(word),)) for word in words]

    assert warm_units(arms) == units


def test_alternatives_are_not_combined(machine) -> None:
    """Both change the input pipeline."""
    machine.step_ms |= {"prefetch": 5.0, "cache": 4.0}

    assert trial(machine, "prefetch", "cache").combined is None
    assert not any("+" in name for name in machine.order)


def test_what_does_not_fit_into_the_budget_is_named(machine) -> None:
    """Nothing is started that could not end in time."""
    found = trial(machine, "prefetch", budget_s=0.0)

    assert found.fixes == ()
    ((name, why),) = found.not_tried
    assert name == "prefetch"
    assert "of the budget 0 s are left" in why


def test_an_interrupted_trial_tells_what_is_known(machine) -> None:
    """Ctrl-C while the second of two fixes runs."""
    machine.step_ms["prefetch"] = 2.0
    machine.ends_after = 2

    found = trial(machine, "prefetch", "cache")

    assert found.interrupted
    assert [outcome.name for outcome in found.fixes] == ["prefetch"]
    assert found.not_tried == (("cache", "the trial was interrupted"),)


def test_a_fix_of_the_start_runs_twice(machine) -> None:
    """The first process leaves what the second one finds; its warm-up is the second one's."""
    machine.start_s = 3.0

    found = trial(machine, "compilation_cache")

    (outcome,) = found.fixes
    assert machine.order.count("compilation_cache") == 2
    assert outcome.warm_up_s is not None
    assert outcome.warm_up_s == pytest.approx(3.16, abs=0.05)
