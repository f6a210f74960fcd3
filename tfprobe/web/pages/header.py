"""The head of every page of a run: what was run, since when, whether it runs still, its works."""

from __future__ import annotations

from typing import Any

from tfprobe.errors import Missing
from tfprobe.profile.profile import Run
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.works import works_document
from tfprobe.web.question import Question

# What fits into a title; commands of launchers may carry whole configurations.
_COMMAND_CHARACTERS = 2_000


def document(run: OpenRun, question: Question) -> dict[str, Any]:  # noqa: ARG001 - all have these
    """Return it, made of what needs no capture. Any: see docs/web.md."""
    found = run.early.profile.run
    return {
        "id": found.id,
        "command": command_line(found),
        "state": found.state,
        "is_live": found.is_live,
        "started": None if isinstance(found.started, Missing) else found.started,
        "processes": len(run.early.profile.processes),
        "works": works_document(run.early),
    }


def command_line(run: Run) -> str | None:
    """Return what was run, as far as a page shows it; None where nobody knows."""
    if isinstance(run.command, Missing):
        return None
    return " ".join(run.command)[:_COMMAND_CHARACTERS]
