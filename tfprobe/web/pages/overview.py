"""The overview of a run: where a step goes, what matters most, and step time over time."""

from __future__ import annotations

from typing import Any

from tfprobe.advice import engine
from tfprobe.ingest.sampled import captures_of
from tfprobe.views import report
from tfprobe.web.opened import OpenRun
from tfprobe.web.question import Question


def document(run: OpenRun, question: Question) -> dict[str, Any]:  # noqa: ARG001 - all have these
    """Return the document of `tfprobe report --json`. Any: see docs/web.md."""
    works = [work for work in run.works() if captures_of(work, run.profile)][:1]
    found = [run.sampled(work) for work in works]
    advice = engine.advise(run.profile, tuple(found))  # type: ignore[arg-type]
    whole = report.gather(run.profile)
    return report.document(whole, engine.document(advice)["findings"])
