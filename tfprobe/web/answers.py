"""Which document answers which question. The server and the one file ask here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfprobe.errors import UsageError
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages import overview
from tfprobe.web.question import Question

Document = dict[str, Any]  # Any: JSON values, as each page's module describes them

# The name of a page's document -> what makes it, sorted by name.
ANSWERS: Mapping[str, Callable[[OpenRun, Question], Document]] = {
    "overview": overview.document,
}


def answer(run: OpenRun, name: str, question: Question) -> Document:
    """Return the document `name` of a run.

    Raises UsageError for a name or an argument that there is not, NoAnswer where the run holds no
    answer, UnreadableInput where it cannot be read.
    """
    make = ANSWERS.get(name)
    if make is None:
        raise UsageError(f"There is no page of that name; there are {', '.join(ANSWERS)}.")
    with run.lock:
        return make(run, question)
