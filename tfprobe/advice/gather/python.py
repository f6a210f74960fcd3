"""Gather which lines of the job the time between its steps goes to."""

from __future__ import annotations

from tfprobe.advice.signals import Python, PythonUse
from tfprobe.errors import Missing
from tfprobe.model.activities import Gap
from tfprobe.model.profile import Profile, Work
from tfprobe.views.breakdown.python_lines import python_lines
from tfprobe.views.breakdown.watched import watched_gaps
from tfprobe.views.followed import followed
from tfprobe.views.main_loop import fills_queue
from tfprobe.views.source_lines import is_of_library

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
    return Python(tuple(lines), len(gaps), _step_source(gaps[-1]))


def _step_source(gap: Gap) -> str:
    """Return the innermost line of the job that was under way as a step ended: the step's own."""
    around = [call for call in gap.calls if call.parent is None and not is_of_library(call.file)]
    known = [call for call in around if call.called_line]
    return f"{known[0].file}:{known[0].called_line}" if known else ""
