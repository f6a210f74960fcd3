"""Slow parts of a job down, and say from the time of a unit what waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tfprobe.analysis.compare.delays import Criticality, DelayedProcess, DelaySlope, delay_slope
from tfprobe.analysis.compare.trials import ProcessTimes, base_error
from tfprobe.errors import Missing
from tfprobe.findings.fixes import DELAYS, ChosenFix
from tfprobe.findings.trials import DelayOutcome, Trial
from tfprobe.trial.arm_files import ArmFiles
from tfprobe.trial.arms import BASE, Arm, ArmProcess, order_of
from tfprobe.trial.conduct import MOST_ROUNDS, Conductor
from tfprobe.trial.judging import failure_of, same_losses, same_weights

# How much longer a part is made to take, in percent; the base is timed, too, with 0.
LEVELS = (25, 50)
# Side by side, a round has one process of each arm only.
_MOST_ROUNDS_SIDE_BY_SIDE = 2 * MOST_ROUNDS
_NOWHERE = "no code of the job that could be slowed down ran"


class DelayConductor(Conductor):
    """One trial of delays: all arms time all parts, and each slows one of them down."""

    _parts: Sequence[str] = ()
    # Each process with its round: only those of one round are compared.
    _rounds_of: list[tuple[int, ArmProcess]]

    def conduct_delays(self, parts: Sequence[str], unit: tuple[str, str] | None) -> Trial:
        """Slow down each part, a key of DELAYS. Raises BaseFailed as `conduct` does."""
        self._parts = tuple(dict.fromkeys(parts))
        self._unit = unit
        self._base_arm = self._arm(BASE)
        self._rounds_of = []
        interrupted = self._is_interrupted(self._delay_rounds)
        not_tried = [part for part in self._parts if self._is_left(part)]
        tried = [part for part in self._parts if part not in not_tried]
        found = self._trial([f"a delay of {part}" for part in not_tried], interrupted=interrupted)
        return replace(
            found,
            # Bases that did not run at once met other loads, and are not compared.
            base=replace(found.base, error_ratio=None) if self._is_busy else found.base,
            delays=tuple(map(self._delay_outcome, tried)),
        )

    def _arm(self, name: str, part: str = "", percent: int = 0) -> Arm:
        fixes = (ChosenFix(DELAYS[one], percent if one == part else 0) for one in self._parts)
        return Arm(name, tuple(fixes))

    def _arms(self, part: str) -> tuple[Arm, ...]:
        return tuple(self._arm(f"{part}+{percent}%", part, percent) for percent in LEVELS)

    def _is_left(self, part: str) -> bool:
        """Return whether a part could have been slowed down, and there was no time for it."""
        were_run = any(self._done.get(arm.name) for arm in self._arms(part))
        return self._is_there(part) and not were_run

    def _delay_rounds(self) -> None:
        """Run rounds until all verdicts are known or the budget is spent."""
        self._rounds_of += [(0, process) for process in self._done.get(BASE, ())]
        for number in range(self._most_rounds):
            parts = [part for part in self._parts if self._is_part_open(part)]
            if self._is_busy:
                for part in parts:
                    self._slow_side_by_side(part, number)
            elif parts:
                self._slow_in_turn(parts, number)

    @property
    def _most_rounds(self) -> int:
        return _MOST_ROUNDS_SIDE_BY_SIDE if self._is_busy else MOST_ROUNDS

    def _slow_side_by_side(self, part: str, number: int) -> None:
        arms = self._arms(part)
        if self._clock.allows(len(arms)):
            self._tell(arms[-1], number)
            self._keep(number, self._run([self._base_arm, *arms]))

    def _slow_in_turn(self, parts: Sequence[str], number: int) -> None:
        fitting = list(parts)
        while fitting and not self._clock.allows(2 * len(LEVELS) * len(fitting) + 1):
            fitting.pop()
        for arm in order_of([arm for part in fitting for arm in self._arms(part)]):
            if not self._is_broken(arm):
                self._tell(arm, number)
                self._keep(number, self._run([arm]))
        if fitting:
            self._tell(self._base_arm, number)
            self._keep(number, self._run([self._base_arm]))

    def _keep(self, number: int, processes: Iterable[ArmProcess]) -> None:
        self._rounds_of += [(number, process) for process in processes]

    def _is_part_open(self, part: str) -> bool:
        if not self._is_there(part) or any(map(self._is_broken, self._arms(part))):
            return False
        return self._delay_outcome(part).verdict is Criticality.UNKNOWN

    def _is_broken(self, arm: Arm) -> bool:
        return any(process.failed for process in self._done.get(arm.name, ()))

    def _is_there(self, part: str) -> bool:
        """Return whether a base has timed the part while it was measured."""
        found = (process.delayed(part, 0, 0) for process in self._all_bases())
        return any(isinstance(one, DelayedProcess) and one.part_ns > 0 for one in found)

    def _all_bases(self) -> list[ArmProcess]:
        every = (process for done in self._done.values() for process in done)
        return [process for process in every if self._is_base(process)]

    def _is_base(self, process: ArmProcess) -> bool:
        return process.arm is self._base_arm

    def _delay_outcome(self, part: str) -> DelayOutcome:
        """Judge a part by the processes so far."""
        arms = {arm.name for arm in self._arms(part)}
        slowed = [process for _, process in self._rounds_of if process.arm.name in arms]
        bases = [process for _, process in self._rounds_of if self._is_base(process)]
        found = DelayOutcome(
            part=part,
            summary=DELAYS[part].summary.format(value=" to ".join(map(str, LEVELS))),
            verdict=Criticality.UNKNOWN,
            slope=Missing("not enough was measured"),
            results=same_weights(bases, slowed),
            losses=same_losses(bases, slowed),
            skipped=_skipped(part, [*self._all_bases(), *slowed]),
            processes=len(slowed),
        )
        if not self._is_there(part):
            nothing = Missing(_NOWHERE)
            return replace(
                found,
                verdict=Criticality.NOT_APPLIED,
                slope=nothing,
                results=nothing,
                losses=nothing,
            )
        failed = next((process for process in slowed if process.failed), None)
        if failed is not None:
            return replace(found, slope=Missing(failure_of(failed)))
        slope = self._slope(part, arms)
        if isinstance(slope, Missing):
            return replace(found, slope=slope)
        return replace(found, slope=slope, verdict=slope.verdict)

    def _slope(self, part: str, arms: set[str]) -> DelaySlope | Missing:
        rounds = {number for number, process in self._rounds_of if process.arm.name in arms}
        processes = []
        for number, process in self._rounds_of:
            if number in rounds and (self._is_base(process) or process.arm.name in arms):
                level = next(one.value for one in process.arm.fixes if one.fix.part == part)
                delayed = process.delayed(part, int(level or 0) / 100, number)
                if isinstance(delayed, Missing):
                    return delayed
                processes.append(delayed)
        bases = [process for _, process in self._rounds_of if self._is_base(process)]
        times = [found for process in bases if isinstance(found := process.times, ProcessTimes)]
        return delay_slope(
            processes,
            error_ratio=0.0 if self._is_busy else base_error(times),
            comparisons=len(self._parts) * self._most_rounds,
        )


def _skipped(part: str, processes: Iterable[ArmProcess]) -> tuple[str, ...]:
    """Return why the agent did not slow a part down somewhere, each reason once."""
    notes = (
        process.files.fixes.get(DELAYS[part].id)
        for process in processes
        if isinstance(process.files, ArmFiles)
    )
    return tuple(dict.fromkeys(why for note in notes if note is not None for why in note.skipped))
