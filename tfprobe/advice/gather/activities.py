"""Gather what a process did besides steps while its steps ran, from the activity view."""

from __future__ import annotations

from tfprobe.advice.signals import ActivityUse
from tfprobe.errors import Missing
from tfprobe.model.activities import Activity
from tfprobe.model.profile import Profile
from tfprobe.views.application import ProcessActivities


def activities(profile: Profile, item: ProcessActivities) -> tuple[ActivityUse, ...]:
    """Return activities with their own time, what was begun inside them left out; longest first.

    What ended before the first step began is left out, too: of activities of which not all
    intervals were kept, in proportion.
    """
    process = item.process.index
    began = [work.first_seen_ns for work in profile.works if work.process == process]
    first_ns = min((each for each in began if each), default=0)
    mine = [each for each in profile.activities if each.process == process]
    found = []
    for use in item.activities:
        if use.is_step or isinstance(use.exclusive_ns, Missing):
            continue
        same = [each for each in mine if (each.kind, each.name) == (use.kind, use.name)]
        count, total_ns = _before(same, first_ns)
        left_ratio = (use.total_ns - total_ns) / use.total_ns if use.total_ns else 0.0
        if use.count > count:
            own_ns = round(use.exclusive_ns * left_ratio)
            found.append(ActivityUse(use.kind, use.name, use.count - count, own_ns))
    return tuple(sorted(found, key=lambda use: -use.own_ns))


def _before(rows: list[Activity], first_ns: int) -> tuple[int, int]:
    """Return how many ended before a moment, and what they took; counts are running ones."""
    early = [each for each in rows if each.end_ns <= first_ns]
    return (
        max((each.count for each in early), default=0),
        max((each.total_ns for each in early), default=0),
    )
