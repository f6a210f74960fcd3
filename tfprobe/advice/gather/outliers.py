"""Gather the steps and gaps that stand out, as far as no other rule knows why."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.advice.signals import Outliers
from tfprobe.errors import Missing
from tfprobe.model.profile import Profile, Work
from tfprobe.views import outliers as view
from tfprobe.views.causes import Cause, Causes, told
from tfprobe.views.machine_causes import BY_OTHERS
from tfprobe.views.outliers import Outlier
from tfprobe.views.remembered import remember

# What the job does beside training, and what rules of their own are about.
_EXPECTED = frozenset(
    {
        "first",
        "import",
        "build",
        "trace",
        "compile",
        "save",
        "evaluate",
        "predict",
        "epoch",
        "calls",
        "work",
    }
)
# What others on the machine do.
_BY_OTHERS = (Cause("stolen", ""), Cause("waited", BY_OTHERS), Cause("crowded", ""))


def outliers(profile: Profile, work: Work) -> Outliers | Missing:
    """Return the steps that took too long, or that came too late.

    Of a long run only the latest steps are remembered: what those took is scaled to all.
    """
    remembered = remember(work, profile.works)
    causes = Causes(profile, work)
    found = [view.of_steps(remembered, causes), view.of_gaps(remembered, causes)]
    known = [each for each in found if not isinstance(each, Missing)]
    if not known:
        return Missing("there are too few steps to tell what is usual")
    everything = [each for one in known for each in one.found]
    unexpected = [each for each in everything if _is_unexpected(each)]
    # What the first step took is set apart with the loop.
    expected = [each for each in everything if not _is_unexpected(each) and each.step]
    unexpected.sort(key=lambda each: -each.excess_ns)
    scale = max(work.executed / max(len(remembered), 1), 1.0)
    cause = _main_cause(unexpected)
    return Outliers(
        steps=tuple(dict.fromkeys(each.step for each in unexpected)),
        excess_ns=round(sum(each.excess_ns for each in unexpected) * scale),
        looked_at=known[0].looked_at,
        every=_every(known, len(unexpected)),
        cause="" if isinstance(cause, Missing) else told(cause),
        is_own=not isinstance(cause, Missing) and cause not in _BY_OTHERS,
        known_step_ns=round(sum(each.excess_ns for each in expected if not each.is_gap) * scale),
        known_gap_ns=round(sum(each.excess_ns for each in expected if each.is_gap) * scale),
    )


def _every(known: Sequence[view.Outliers], count: int) -> int | None:
    """Return the distance at which most outliers come, None where most come at none."""
    periods = [period for one in known for period in one.periods]
    longest = max(periods, key=lambda each: each.times, default=None)
    return longest.every if longest is not None and longest.times > count / 2 else None


def _is_unexpected(each: Outlier) -> bool:
    # Whatever went on during the first step, that step is none of the loop's.
    if not each.step:
        return False
    return isinstance(each.cause, Missing) or each.cause.kind not in _EXPECTED


def _main_cause(outliers: Sequence[Outlier]) -> Cause | Missing:
    """Return what most of the time was spent in; Missing also where that is not known."""
    sums: dict[Cause | Missing, int] = {}
    for outlier in outliers:
        sums[outlier.cause] = sums.get(outlier.cause, 0) + outlier.excess_ns
    return max(sums, key=lambda cause: sums[cause], default=Missing("nothing stands out"))
