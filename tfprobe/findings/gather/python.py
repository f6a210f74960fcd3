"""Gather which lines of the job the time between its steps goes to."""

from __future__ import annotations

from tfprobe.analysis.breakdown.python_lines import python_lines
from tfprobe.analysis.breakdown.watched_gaps import followed, watched_gaps
from tfprobe.analysis.core.main_loop import fills_queue
from tfprobe.analysis.core.source_lines import is_of_library
from tfprobe.errors import Missing
from tfprobe.findings.signals import Python, PythonUse
from tfprobe.profile.activities import Gap
from tfprobe.profile.profile import Profile, Work

_TOP = 5


def python(profile: Profile, work: Work) -> Python | Missing:
    """Return the lines; of gaps that are no longer than usual, where such ones were watched."""
    if fills_queue(work):
        return Missing("its steps fill a queue, beside those of the job")
    key = (work.process, work.index)
    watched = watched_gaps(profile, {key: work}).get(key)
    if watched is None:
        return Missing("the time between its steps was not watched")
    gaps = tuple(watched.by_step.values())
    # All of a loop with long gaps alone may look unusual.
    usual = watched.usual if gaps else None
    gaps = gaps or tuple(g for g in followed(profile) if (g.process, g.work) == key)
    told = python_lines(gaps, usual)[:_TOP]
    lines = (
        PythonUse(each.what, f"{each.file}:{each.line}", each.kind.value, each.ratio, each.calls)
        for each in told
    )
    around = _under_way(gaps[-1])
    return Python(tuple(lines), len(gaps), *((around[0], around[-1]) if around else ()))


def _under_way(gap: Gap) -> list[str]:
    """Return the lines of the job that were under way as a step ended, the innermost first."""
    around = [call for call in gap.calls if call.parent is None and not is_of_library(call.file)]
    return [f"{call.file}:{call.called_line}" for call in around if call.called_line]
