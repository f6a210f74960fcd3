"""Gather what a process did besides steps while its steps ran, from the activity view."""

from __future__ import annotations

from collections import Counter

from tfprobe.analysis.system.application import ProcessActivities
from tfprobe.errors import Missing
from tfprobe.findings.signals import ActivityUse
from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import Profile, Work


def activities(profile: Profile, item: ProcessActivities) -> tuple[ActivityUse, ...]:
    """Return activities with their own time, what was begun inside them left out; longest first.

    What ended before the first step began, or began when the last was over, is left out, too: of
    activities of which not all intervals were kept, in proportion.
    """
    process = item.process.index
    works = [work for work in profile.works if work.process == process]
    first_ns = min((each.first_seen_ns for each in works if each.first_seen_ns), default=0)
    last_ns = _last_ns(profile, works, process)
    mine = [each for each in profile.activities if each.process == process]
    found = []
    for use in item.activities:
        if use.is_step or isinstance(use.exclusive_ns, Missing):
            continue
        same = [each for each in mine if (each.kind, each.name) == (use.kind, use.name)]
        early_count, early_ns = _before(same, first_ns)
        late_count, late_ns = _after(same, last_ns)
        count, total_ns = use.count - early_count - late_count, use.total_ns - early_ns - late_ns
        left_ratio = max(total_ns, 0) / use.total_ns if use.total_ns else 0.0
        if count > 0:
            own_ns = round(use.exclusive_ns * left_ratio)
            ran = [each for each in same if each.end_ns > first_ns]
            found.append(
                ActivityUse(use.kind, use.name, count, own_ns, max(total_ns, 0), _source(ran))
            )
    return tuple(sorted(found, key=lambda use: -use.own_ns))


def _source(rows: list[Activity]) -> str:
    """Return the line that called for most of these."""
    lines = Counter(f"{each.file}:{each.line}" for each in rows if each.file)
    return lines.most_common(1)[0][0] if lines else ""


def _last_ns(profile: Profile, works: list[Work], process: int) -> int | None:
    """Return when the last step of a process was over, in unix ns; None where nobody knows."""
    shift_ns = profile.processes[process].unix_minus_monotonic_ns
    ends = [int(work.recent.end_ns[-1]) for work in works if len(work.recent.end_ns)]
    return None if isinstance(shift_ns, Missing) or not ends else max(ends) + shift_ns


def _after(rows: list[Activity], last_ns: int | None) -> tuple[int, int]:
    """Return how many began after a moment, and what they took; counts are running ones."""
    late = [each for each in rows if last_ns is not None and each.start_ns >= last_ns]
    rest = [each for each in rows if last_ns is None or each.start_ns < last_ns]
    counts = [max((each.count for each in some), default=0) for some in (late, rest)]
    totals = [max((each.total_ns for each in some), default=0) for some in (late, rest)]
    return max(counts[0] - counts[1], 0), max(totals[0] - totals[1], 0)


def _before(rows: list[Activity], first_ns: int) -> tuple[int, int]:
    """Return how many ended before a moment, and what they took; counts are running ones."""
    early = [each for each in rows if each.end_ns <= first_ns]
    return (
        max((each.count for each in early), default=0),
        max((each.total_ns for each in early), default=0),
    )
