"""Judge an arm by the processes that were run of it, and of the base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfprobe.analysis.compare.trials import (
    ProcessTimes,
    ResultsComparison,
    TrialGain,
    Verdict,
    base_error,
    compare_losses,
    compare_results,
    gain,
)
from tfprobe.errors import Missing, NoAnswer
from tfprobe.findings.trials import AppliedFix, BaseOutcome, FixOutcome
from tfprobe.trial.arm_files import ArmFiles
from tfprobe.trial.arms import Arm, ArmProcess


class BaseFailed(NoAnswer):
    """The job fails, or ends too early, without any fix."""


def checked(process: ArmProcess) -> ArmFiles:
    """Return what the first base left. Raises BaseFailed."""
    if process.failed and process.run is None:
        raise BaseFailed(
            f"The job was not started. {process.tail or _ending(process)}",
            hint="`tfprobe run` on the same command shows whether it starts outside of a trial.",
        )
    if process.failed:
        raise BaseFailed(
            f"The base failed: the job itself, without any fix, ended with {_ending(process)}: "
            f"{_last_line(process) or 'nothing on stderr says why'}.",
            hint="Make it run without tfprobe first; if it does, mind that it gets no input on "
            "stdin in a trial.",
        )
    if isinstance(process.files, Missing):
        raise BaseFailed(
            f"The base counted no steps: {process.files.reason}.",
            hint="`tfprobe run` on the same command shows what is recorded of it.",
        )
    return process.files


def same_weights(
    bases: Sequence[ArmProcess], done: Sequence[ArmProcess]
) -> ResultsComparison | Missing:
    """Compare the weights of processes with those of the bases."""
    return compare_results(
        [process.weights for process in bases], [process.weights for process in done]
    )


def same_losses(
    bases: Sequence[ArmProcess], done: Sequence[ArmProcess]
) -> ResultsComparison | Missing:
    """Compare the losses of processes with those of the bases."""
    return compare_losses(
        [process.losses for process in bases], [process.losses for process in done]
    )


def judge(
    arm: Arm,
    bases: Sequence[ArmProcess],
    done: Sequence[ArmProcess],
    *,
    comparisons: int,
    is_busy: bool,
) -> FixOutcome:
    """Say what the fixes of an arm win, and whether results stayed the same."""
    found = FixOutcome(
        fixes=arm.fixes,
        verdict=Verdict.UNKNOWN,
        gain=Missing("not enough was measured"),
        results=same_weights(bases, done),
        losses=same_losses(bases, done),
        applied=_applied(done),
        processes=len(done),
    )
    if any(process.is_not_applied for process in done):
        nothing = Missing("it was applied nowhere")
        return replace(
            found, verdict=Verdict.NOT_APPLIED, gain=nothing, results=nothing, losses=nothing
        )
    failed = next((process for process in done if process.failed), None)
    if failed is not None:
        return replace(found, gain=Missing(failure_of(failed)))
    base_times, arm_times = (_all_times(processes) for processes in (bases, done))
    if isinstance(base_times, Missing):
        return replace(found, gain=base_times)
    if isinstance(arm_times, Missing):
        return replace(found, gain=arm_times)
    if len(base_times) < 2 or not arm_times:
        return found
    measured = gain(
        base_times,
        arm_times,
        comparisons=comparisons,
        is_busy=is_busy,
        is_cpu_comparable=all(chosen.fix.has_like_cpu_time for chosen in arm.fixes),
    )
    # The first process of a fix of the start finds nothing yet.
    warm_up_s = _mean_warm_up_s(done[-1:] if arm.is_of_start else done)
    return replace(
        found,
        verdict=measured.verdict,
        gain=measured,
        warm_up_s=warm_up_s,
        break_even_units=_break_even(base_times, measured, warm_up_s, _mean_warm_up_s(bases)),
    )


def base_outcome(unit: tuple[str, str] | None, done: Sequence[ArmProcess]) -> BaseOutcome:
    """Describe the job without a fix; `done` has at least one process that was measured."""
    times = [found for process in done if isinstance(found := process.times, ProcessTimes)]
    kind, name = unit or ("", "")
    return BaseOutcome(
        kind=kind,
        name=name,
        unit_ns=sum(one.unit_ns for one in times) / len(times),
        warm_up_s=_mean_warm_up_s(done),
        error_ratio=base_error(times) if len(times) > 1 else None,
        processes=len(times),
    )


def any_times(done: Sequence[ArmProcess]) -> bool:
    """Return whether one of the processes was measured."""
    return any(isinstance(process.times, ProcessTimes) for process in done)


def low_ratio(outcome: FixOutcome) -> float:
    """Return the lower end of the interval of a gain."""
    return outcome.gain.wall.low_ratio if isinstance(outcome.gain, TrialGain) else 0.0


def _applied(done: Sequence[ArmProcess]) -> dict[str, AppliedFix]:
    found: dict[str, AppliedFix] = {}
    for process in done:
        if isinstance(process.files, ArmFiles):
            found.update(process.files.fixes)
    return found


def _all_times(processes: Sequence[ArmProcess]) -> list[ProcessTimes] | Missing:
    """Return the times of all processes; Missing with the reason of the first that has none."""
    found = []
    for process in processes:
        times = process.times
        if isinstance(times, Missing):
            return times
        found.append(times)
    return found


def _mean_warm_up_s(processes: Sequence[ArmProcess]) -> float | None:
    known = [found for process in processes if (found := process.warm_up_s) is not None]
    return sum(known) / len(known) if known else None


def _break_even(
    bases: Sequence[ProcessTimes], measured: TrialGain, arm_s: float | None, base_s: float | None
) -> int | None:
    """Return after how many units a longer warm-up is made good by shorter units."""
    if arm_s is None or base_s is None or arm_s <= base_s or measured.verdict is not Verdict.WON:
        return None
    unit_s = sum(one.unit_ns for one in bases) / len(bases) / 1e9
    return round((arm_s - base_s) / (unit_s * measured.wall.ratio))


def failure_of(process: ArmProcess) -> str:
    """Return the last words of a job that failed with what was tried."""
    return f"the job failed with it: {_last_line(process) or _ending(process)}"


def _last_line(process: ArmProcess) -> str:
    """Return the last line on stderr: of a traceback, the exception; "" where a signal ended it."""
    return "" if process.status < 0 else process.tail.rsplit("\n", 1)[-1].rstrip(".")


def _ending(process: ArmProcess) -> str:
    if process.status < 0:
        return f"signal {-process.status}"
    return f"exit status {process.status}"
