"""Which processes the others wait for, as the advice has it: that takes the sampled steps."""

from __future__ import annotations

from typing import Any

from tfprobe.advice.finding import document as finding_document
from tfprobe.advice.gather import gather
from tfprobe.advice.rules import straggler
from tfprobe.advice.thresholds import DEFAULTS
from tfprobe.errors import Missing
from tfprobe.model.profile import Profile
from tfprobe.web.opened import OpenRun
from tfprobe.web.question import Question

Document = dict[str, Any]  # Any: see docs/web.md


def document(run: OpenRun, question: Question) -> Document:  # noqa: ARG001 - all have these
    """Return a finding for each work with a late process, or why none can be told."""
    return run.made("stragglers", lambda: _stragglers(run.profile))


def _stragglers(profile: Profile) -> Document:
    if len({work.process for work in profile.works}) < 2:
        return {"findings": [], "missing": "fewer than two processes have steps"}
    if all(process.rank is None for process in profile.processes):
        why = "no process says which rank it is, so that nobody knows which work together"
        return {"findings": [], "missing": why}
    verdicts = straggler.check(gather(profile, (), DEFAULTS), DEFAULTS)
    found = [each for each in verdicts if each is not None and not isinstance(each, Missing)]
    return {"findings": [finding_document(each) for each in found], "missing": None}
