"""Find the slow steps without an expected reason, and sum up their time beyond the usual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfprobe.analysis.steps.outliers import Outlier, Outliers, gap_outliers, step_outliers
from tfprobe.analysis.steps.slow_step_causes import (
    AFTER_WAIT,
    BY_OTHERS,
    Cause,
    Causes,
    describe_cause,
)
from tfprobe.analysis.steps.step_window import recent_window
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Profile

# What a job does besides training: it is expected, and rules of its own look at it.
_EXPECTED = frozenset(
    {
        "first",
        "import",
        "callbacks",
        "summary",
        "build",
        "trace",
        "lower",
        "xla",
        "torch_compile",
        "compile",
        "compilations",
        "save",
        "evaluate",
        "predict",
        "epoch",
        "calls",
        "work",
        "recording",
        "between_cells",
    }
)
# What other processes of the machine cause.
_BY_OTHERS = (Cause("stolen", ""), Cause("waited", BY_OTHERS), Cause("crowded", ""))


@dataclass(frozen=True, slots=True)
class UnexpectedSteps:
    """Steps far from the usual one: their numbers, slowest first, and what they took beyond it.

    `every` is their period if most come at one, `cause` what went on during most of their time,
    `is_own` whether the job itself did that. `known_step_ns` and `known_gap_ns` are the excess of
    other slow steps and gaps, for a known reason other than the step itself.
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
    """Return the steps that took too long or came too late.

    A long run has only its latest steps on record: their excess is scaled to all steps.
    """
    remembered = recent_window(loop, profile.loops)
    causes = Causes(profile, loop)
    both = (step_outliers(remembered, causes), gap_outliers(remembered, causes))
    known = [found for found in both if not isinstance(found, Missing)]
    if not known:
        return Missing("there are too few steps to know what is usual")
    # The gap after a wait is as regular as the wait.
    outliers = [
        outlier
        for found in known
        for outlier in found.found
        if isinstance(outlier.cause, Missing) or outlier.cause.kind != AFTER_WAIT.kind
    ]
    unexpected = [outlier for outlier in outliers if _is_unexpected(outlier)]
    # LoopTiming leaves out the excess of the first step.
    expected = [outlier for outlier in outliers if outlier.step and not _is_unexpected(outlier)]
    known_steps = [outlier for outlier in expected if not outlier.is_gap]
    known_gaps = [outlier for outlier in expected if outlier.is_gap]
    unexpected.sort(key=lambda outlier: -outlier.excess_ns)
    scale = max(loop.executed / max(len(remembered), 1), 1.0)
    cause = _main_cause(unexpected)
    return UnexpectedSteps(
        steps=tuple(dict.fromkeys(outlier.step for outlier in unexpected)),
        excess_ns=round(_excess_ns(unexpected) * scale),
        looked_at=known[0].looked_at,
        every=_every(known, unexpected),
        cause="" if isinstance(cause, Missing) else describe_cause(cause),
        is_own=not isinstance(cause, Missing) and cause not in _BY_OTHERS,
        known_step_ns=round(_excess_ns(known_steps) * scale),
        known_gap_ns=round(_excess_ns(known_gaps) * scale),
    )


def _every(known: Sequence[Outliers], outliers: Sequence[Outlier]) -> int | None:
    """Return the period at which most outliers come and take most of the time, if there is one.

    A single long stop does not come at a period, and may take more time than those that do.
    """
    periods = [period for found in known for period in found.periods]
    longest = max(periods, key=lambda period: period.times, default=None)
    if longest is None or longest.times <= len(outliers) / 2:
        return None
    in_turn = (
        outlier for outlier in outliers if (outlier.step - longest.first) % longest.every == 0
    )
    return longest.every if 2 * _excess_ns(in_turn) > _excess_ns(outliers) else None


def _excess_ns(outliers: Iterable[Outlier]) -> int:
    return sum(outlier.excess_ns for outlier in outliers)


def _is_unexpected(outlier: Outlier) -> bool:
    # The first step is slow in any case.
    if not outlier.step:
        return False
    return isinstance(outlier.cause, Missing) or outlier.cause.kind not in _EXPECTED


def _main_cause(outliers: Sequence[Outlier]) -> Cause | Missing:
    """Return what more than half of the time was spent on; Missing if that is unknown."""
    sums: dict[Cause | Missing, int] = {}
    for outlier in outliers:
        sums[outlier.cause] = sums.get(outlier.cause, 0) + outlier.excess_ns
    main = max(sums, key=lambda cause: sums[cause], default=Missing("nothing stands out"))
    if sums and 2 * sums[main] <= sum(sums.values()):
        return Missing("no one cause explains most of it")
    return main
