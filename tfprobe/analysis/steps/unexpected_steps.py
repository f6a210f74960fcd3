"""Pick the slow steps that have no expected reason, and sum up what they took beyond the usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfprobe.analysis.steps.outliers import Outlier, Outliers, gap_outliers, step_outliers
from tfprobe.analysis.steps.slow_step_causes import BY_OTHERS, Cause, Causes, describe_cause
from tfprobe.analysis.steps.step_window import recent_window
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Profile

# What the job does beside training, and what rules of their own are about.
_EXPECTED = frozenset(
    {
        "first",
        "import",
        "callbacks",
        "summary",
        "build",
        "trace",
        "compile",
        "save",
        "evaluate",
        "predict",
        "epoch",
        "calls",
        "work",
        "recording",
    }
)
# What others on the machine do.
_BY_OTHERS = (Cause("stolen", ""), Cause("waited", BY_OTHERS), Cause("crowded", ""))


@dataclass(frozen=True, slots=True)
class UnexpectedSteps:
    """Steps far from the usual one: their numbers, slowest first, and what they took beyond it.

    `every` is the distance between them where they come at one distance, `cause` what went on
    during most of their time, `is_own` whether that is the job's own doing. `known_step_ns` and
    `known_gap_ns` are what others took beyond the usual, of which the reason is known and not the
    steps' own.
    """

    steps: tuple[int, ...]
    excess_ns: int
    looked_at: int
    every: int | None = None
    cause: str = ""
    is_own: bool = False
    known_step_ns: int = 0
    known_gap_ns: int = 0


def unexpected_steps(profile: Profile, loop: Loop) -> UnexpectedSteps | Missing:
    """Return the steps that took too long, or that came too late.

    Of a long run only the latest steps are remembered: what those took is scaled to all.
    """
    remembered = recent_window(loop, profile.loops)
    causes = Causes(profile, loop)
    found = [step_outliers(remembered, causes), gap_outliers(remembered, causes)]
    known = [each for each in found if not isinstance(each, Missing)]
    if not known:
        return Missing("there are too few steps to know what is usual")
    everything = [each for one in known for each in one.found]
    unexpected = [each for each in everything if _is_unexpected(each)]
    # What the first step took is set apart with the loop.
    expected = [each for each in everything if not _is_unexpected(each) and each.step]
    unexpected.sort(key=lambda each: -each.excess_ns)
    scale = max(loop.executed / max(len(remembered), 1), 1.0)
    cause = _main_cause(unexpected)
    return UnexpectedSteps(
        steps=tuple(dict.fromkeys(each.step for each in unexpected)),
        excess_ns=round(sum(each.excess_ns for each in unexpected) * scale),
        looked_at=known[0].looked_at,
        every=_every(known, unexpected),
        cause="" if isinstance(cause, Missing) else describe_cause(cause),
        is_own=not isinstance(cause, Missing) and cause not in _BY_OTHERS,
        known_step_ns=round(sum(each.excess_ns for each in expected if not each.is_gap) * scale),
        known_gap_ns=round(sum(each.excess_ns for each in expected if each.is_gap) * scale),
    )


def _every(known: Sequence[Outliers], outliers: Sequence[Outlier]) -> int | None:
    """Return the distance at which most outliers come, None where most come at none.

    They take most of the time, too: one long stop is none of those that come at a distance.
    """
    periods = [period for one in known for period in one.periods]
    longest = max(periods, key=lambda each: each.times, default=None)
    if longest is None or longest.times <= len(outliers) / 2:
        return None
    in_turn = (
        outlier for outlier in outliers if (outlier.step - longest.first) % longest.every == 0
    )
    turns_ns = sum(each.excess_ns for each in in_turn)
    return longest.every if 2 * turns_ns > sum(outlier.excess_ns for outlier in outliers) else None


def _is_unexpected(each: Outlier) -> bool:
    # Whatever went on during the first step, that step is none of the loop's.
    if not each.step:
        return False
    return isinstance(each.cause, Missing) or each.cause.kind not in _EXPECTED


def _main_cause(outliers: Sequence[Outlier]) -> Cause | Missing:
    """Return what more than half of the time was spent in; Missing where that is not known."""
    sums: dict[Cause | Missing, int] = {}
    for outlier in outliers:
        sums[outlier.cause] = sums.get(outlier.cause, 0) + outlier.excess_ns
    main = max(sums, key=lambda cause: sums[cause], default=Missing("nothing stands out"))
    if sums and 2 * sums[main] <= sum(sums.values()):
        return Missing("no one cause explains most of it")
    return main
