"""Run the arms of a trial in an order that a drift of the machine cannot decide, and judge them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tfprobe.analysis.compare.trials import (
    LEAST_UNITS,
    Verdict,
)
from tfprobe.errors import Missing
from tfprobe.findings.fixes import ChosenFix
from tfprobe.findings.trials import (
    IN_TURN,
    SIDE_BY_SIDE,
    BaseOutcome,
    FixOutcome,
    Prediction,
    Trial,
    not_applied,
)
from tfprobe.runs.layout import RunFolder
from tfprobe.trial.arms import (
    BASE,
    WARM_UNITS,
    Arm,
    ArmProcess,
    StartedArm,
    TriedJob,
    order_of,
    trial_config,
    warm_units,
)
from tfprobe.trial.judging import BaseFailed, any_times, base_outcome, checked, judge, low_ratio

# How long a process is measured after its warm-up, unless units are slow.
MEASURED_S = 5.0
_MOST_MEASURED_S = 60.0
# A process is measured for about this many units, if that takes no longer than allowed.
_WISHED_UNITS = 2 * LEAST_UNITS
MOST_ROUNDS = 3
# Of the first short recording, after its warm-up.
_RECORDED_S = 15.0
_UNLIMITED_UNITS = 10**9
# Side by side, arms are warm at different times; what is measured is the time they have in common.
_COMMON = 2.0
# How much longer than alone three processes take side by side, about, where CPUs are few.
_AT_ONCE = 2
# The first base of a trial in which all else runs side by side.
_ALONE = f"{BASE} alone"
# Of an arm whose fix makes only the start faster: one that leaves files, and one that finds them.
_STARTS = 2
# Beyond what the first base took.
_PATIENCE = 4.0
_LEAST_PATIENCE_S = 120.0

Watch = Callable[[str, float], None]
# Of what a run of the base has recorded: why fixes can change nothing in the job, by their ids.
Exclude = Callable[[RunFolder], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """How much a trial may take. `steps` is the number of measured units, None for a time."""

    budget_s: float = 600.0
    steps: int | None = None
    seconds: float = MEASURED_S


@dataclass(slots=True)
class _Clock:
    """When the budget ends, and how long a process of the base takes, in s."""

    deadline: float
    process_s: float = 0.0

    @property
    def left_s(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def allows(self, processes: int) -> bool:
        return self.left_s >= processes * self.process_s


class Conductor:
    """One trial: the processes so far, by arm."""

    def __init__(
        self,
        job: TriedJob,
        limits: TrialLimits,
        *,
        is_busy: bool,
        pressure_ratio: float | None,
        watch: Watch,
    ) -> None:
        """Prepare a trial; nothing is started yet."""
        self._job = job
        self._limits = limits
        self._is_busy = is_busy
        self._pressure_ratio = pressure_ratio
        self._watch = watch
        self._began_ns = time.time_ns()
        self._clock = _Clock(time.monotonic() + limits.budget_s)
        # What the job runs with where nothing is tried.
        self._base_arm = Arm(BASE)
        self._unit: tuple[str, str] | None = None
        self._first_run: RunFolder | None = None
        self._seconds = limits.seconds
        # By how much processes that start at once may be warm one after the other.
        self._apart_s = 0.0
        self._warm = WARM_UNITS
        self._started = 0
        self._running: list[StartedArm] = []
        self._done: dict[str, list[ArmProcess]] = {}
        self._written: list[str] = []

    def conduct(
        self,
        fixes: Sequence[ChosenFix],
        unit: tuple[str, str] | None,
        predictions: dict[str, Prediction],
        exclude: Exclude | None = None,
    ) -> Trial:
        """Try each fix alone, then what won together.

        Without an earlier recording, `exclude` says what the first base excludes.

        Raises BaseFailed if the job does not run without a fix. On Ctrl-C all processes end, and
        what is known until then is returned.
        """
        self._unit = unit
        arms = [Arm(chosen.fix.id, (chosen,)) for chosen in fixes]
        self._warm = warm_units(arms)
        combined: list[FixOutcome] = []
        excluded: dict[str, str] = {}

        def work() -> None:
            if exclude is not None and self._first_run is not None:
                excluded.update(exclude(self._first_run))
                arms[:] = [arm for arm in arms if arm.name not in excluded]
            self._rounds(arms)
            together = self._combine([self._outcome(arm, len(arms)) for arm in arms])
            combined.extend(() if together is None else (together,))

        interrupted = self._is_interrupted(work)
        outcomes = [self._outcome(arm, len(arms)) for arm in arms if self._done.get(arm.name)]
        outcomes = [
            replace(outcome, prediction=predictions.get(outcome.fixes[0].fix.id))
            for outcome in outcomes
        ]
        outcomes += [
            not_applied(chosen, excluded[chosen.fix.id])
            for chosen in fixes
            if chosen.fix.id in excluded
        ]
        not_tried = [arm.name for arm in arms if not self._done.get(arm.name)]
        return replace(
            self._trial(not_tried, interrupted=interrupted),
            fixes=tuple(outcomes),
            combined=combined[0] if combined else None,
        )

    def _is_interrupted(self, work: Callable[[], None]) -> bool:
        """Run the first base, then `work`, and end all processes; return whether Ctrl-C ended it.

        Raises KeyboardInterrupt where nothing is known yet.
        """
        try:
            self._first_base()
            work()
        except KeyboardInterrupt:
            if not self._done.get(BASE):
                raise
            return True
        finally:
            for process in self._running:
                process.end()
        return False

    def _trial(self, not_tried: Sequence[str], *, interrupted: bool) -> Trial:
        """Describe the trial, without what was tried."""
        why = "the trial was interrupted" if interrupted else self._no_time()
        return Trial(
            command=self._job.command,
            cwd=str(self._job.place.cwd),
            started_unix_ns=self._began_ns,
            took_s=(time.time_ns() - self._began_ns) / 1e9,
            order=SIDE_BY_SIDE if self._is_busy else IN_TURN,
            pressure_ratio=self._pressure_ratio,
            base=self._base(),
            fixes=(),
            isolation=self._job.place.isolation.value,
            not_overlaid=tuple(map(str, self._job.place.refused)),
            written=tuple(dict.fromkeys(self._written)),
            not_tried=tuple((name, why) for name in not_tried),
            interrupted=interrupted,
        )

    def _first_base(self) -> None:
        """Run the base once: whether it runs at all, what it counts, and how long it takes."""
        self._watch("running the job without a fix", self._clock.left_s)
        began = time.monotonic()
        (first,) = self._run([self._base_arm])
        files = checked(first)
        self._unit = files.unit
        wished_s = min(_MOST_MEASURED_S, _WISHED_UNITS * files.unit_s)
        if self._is_busy:
            wished_s = min(_MOST_MEASURED_S, _COMMON * wished_s)
        if self._limits.steps is not None:
            # Side by side, arms get the time in which the base runs so many steps.
            self._seconds = self._limits.steps * files.unit_s
        elif wished_s > self._seconds:
            self._seconds = wished_s
            self._done[BASE].clear()
            began = time.monotonic()
            (first,) = self._run([self._base_arm])
            checked(first)
        self._clock.process_s = time.monotonic() - began
        self._first_run = first.run
        times = first.times
        if isinstance(times, Missing):
            if not self._clock.left_s:
                raise BaseFailed(
                    f"The budget of {self._limits.budget_s:.0f} s ended before the job without a "
                    f"fix had run long enough: {times.reason}.",
                    hint="Give it more time, for example --budget 20m.",
                )
            raise BaseFailed(
                f"The job is too short for a trial: {times.reason}.",
                hint="Give it more steps, for example more epochs.",
            )
        if self._is_busy:
            # Compared are only processes that ran at the same time.
            self._apart_s = min(_MOST_MEASURED_S, first.warm_up_s or 0.0)
            self._done[BASE].clear()
            self._done[_ALONE] = [first]

    def _rounds(self, arms: Sequence[Arm]) -> None:
        """Run rounds until all verdicts are known or the budget is spent."""
        for number in range(MOST_ROUNDS):
            open_arms = [arm for arm in arms if self._is_open(arm, len(arms))]
            if not open_arms:
                return
            if self._is_busy:
                self._side_by_side(open_arms, number)
            else:
                self._in_turn(open_arms, number)

    def _in_turn(self, arms: Sequence[Arm], number: int) -> None:
        """Run each arm twice, forward and backward, between two bases."""
        fitting = list(arms)
        while fitting and not self._clock.allows(2 * len(fitting) + 1):
            fitting.pop()
        for arm in order_of(fitting):
            if self._is_settled(arm):
                continue
            self._tell(arm, number)
            self._run([arm])
        if fitting:
            self._tell(self._base_arm, number)
            self._run([self._base_arm])

    def _side_by_side(self, arms: Sequence[Arm], number: int) -> None:
        """Run each arm between two bases at the same time."""
        for arm in arms:
            if not self._clock.allows(_AT_ONCE):
                return
            self._tell(arm, number)
            self._run([self._base_arm, arm, self._base_arm])

    def _tell(self, arm: Arm, number: int) -> None:
        text = "the job without a fix" if arm.name == BASE else arm.name
        self._watch(f"round {number + 1}: {text}", self._clock.left_s)

    def _run(self, arms: Sequence[Arm]) -> list[ArmProcess]:
        """Run these arms at the same time; keep and return what became of them."""
        is_alone = len(arms) == 1
        seconds = self._seconds if is_alone else _COMMON * self._seconds + self._apart_s
        most_units = _UNLIMITED_UNITS
        if self._limits.steps is not None and is_alone:
            # The first mark after the warm-up only begins the first step.
            most_units, seconds = self._warm + self._limits.steps + 1, self._limits.budget_s
        for arm in arms:
            config = trial_config(
                arm,
                self._unit,
                seconds=seconds,
                seed=self._job.seed,
                most_units=most_units,
                warm=self._warm,
            )
            self._started += 1
            self._running.append(
                StartedArm(self._job, arm, self._started, config, {"trace_level": "off"})
            )
        deadline = time.monotonic() + self._patience_s(len(arms))
        ended = []
        for process in tuple(self._running):
            ended.append(process.wait(deadline))
            self._running.remove(process)
        found = list(_in_common(ended))
        for left in found:
            self._done.setdefault(left.arm.name, []).append(left)
            self._written += left.written
        return found

    def _no_time(self) -> str:
        """Say why a fix that fits nowhere was not tried."""
        return (
            f"a process of the job takes {self._clock.process_s:.0f} s, and of the budget "
            f"{self._clock.left_s:.0f} s are left"
        )

    def _patience_s(self, processes: int) -> float:
        """Return how long to wait for processes: several times what the base took, once known."""
        if not self._clock.process_s:
            return self._clock.left_s
        usual_s = max(_LEAST_PATIENCE_S, _PATIENCE * processes * self._clock.process_s)
        return min(usual_s, self._clock.left_s + _LEAST_PATIENCE_S)

    def _is_settled(self, arm: Arm) -> bool:
        """Return whether another process of an arm would say nothing new."""
        done = self._done.get(arm.name, ())
        if arm.is_of_start and len(done) >= _STARTS:
            return True
        return any(process.failed or process.is_not_applied for process in done)

    def _is_open(self, arm: Arm, comparisons: int) -> bool:
        if not self._done.get(arm.name):
            return True
        if self._is_settled(arm):
            return False
        return self._outcome(arm, comparisons).verdict is Verdict.UNKNOWN

    def _combine(self, outcomes: Sequence[FixOutcome]) -> FixOutcome | None:
        """Add what won to the best one, as long as that wins more. One fix of a part at most."""
        if self._is_busy:
            return None  # sets of fixes are compared with each other in turn only
        won = [outcome for outcome in outcomes if outcome.verdict is Verdict.WON]
        won.sort(key=low_ratio, reverse=True)
        if len(won) < 2:
            return None
        best = won[0].fixes
        found: FixOutcome | None = None
        for outcome in won[1:]:
            added = outcome.fixes[0]
            if any(added.fix.part == chosen.fix.part for chosen in best):
                continue
            if not self._clock.allows(2):
                break
            together = Arm("+".join(chosen.fix.id for chosen in (*best, added)), (*best, added))
            before = Arm("+".join(chosen.fix.id for chosen in best), best)
            for arm in (together, together):
                self._watch(f"together: {together.name}", self._clock.left_s)
                self._run([arm])
            step = self._outcome(together, len(won), against=before)
            if step.verdict is Verdict.WON:
                best = together.fixes
                found = self._outcome(together, len(won))
        return found

    def _base(self) -> BaseOutcome:
        """Describe the base; alone, if what ran at the same time as others was too short."""
        sides = (self._done.get(BASE, []), self._done.get(_ALONE, []))
        measured = (side for side in sides if any_times(side))
        return base_outcome(self._unit, next(measured))

    def _outcome(self, arm: Arm, comparisons: int, against: Arm | None = None) -> FixOutcome:
        """Judge an arm by its processes so far; each round is one more look at them."""
        bases = self._done.get(BASE if against is None else against.name, [])
        found = judge(
            arm,
            bases,
            self._done.get(arm.name, []),
            comparisons=comparisons * MOST_ROUNDS,
            is_busy=self._is_busy,
        )
        return found if against is None else replace(found, against=against.fixes)


def record(job: TriedJob, watch: Watch) -> RunFolder:
    """Record the job for a short time in its workspace, for its findings. Raises BaseFailed."""
    watch("recording the job to see what costs time", _RECORDED_S)
    config = trial_config(
        Arm(BASE), None, seconds=_RECORDED_S, most_units=_UNLIMITED_UNITS, seed=job.seed
    )
    started = StartedArm(job, Arm("recording"), 0, config, {"budget": "5%"})
    try:
        process = started.wait(time.monotonic() + _LEAST_PATIENCE_S + _RECORDED_S)
    finally:
        started.end()
    checked(process)
    assert process.run is not None
    return process.run


def _in_common(processes: Sequence[ArmProcess]) -> Iterator[ArmProcess]:
    """Cut what is measured of processes that ran at once to the time when all were warm."""
    warm = [process.warm for process in processes if not isinstance(process.files, Missing)]
    if len(processes) < 2 or len(warm) < len(processes) or not all(len(one.units) for one in warm):
        yield from processes
        return
    first_ns = max(int(marks.mono_ns[0]) for marks in warm)
    last_ns = min(int(marks.mono_ns[-1]) for marks in warm)
    for process, marks in zip(processes, warm, strict=True):
        yield replace(process, common=marks.between(first_ns, last_ns))
