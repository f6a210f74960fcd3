"""A source file of the job, with what its lines cost: `file` is its place in the list of `code`.

The one document that reads beside the run: see web.source_files for what it may.
"""

from __future__ import annotations

from typing import Any

from tfprobe.analysis.ops.costs import AT
from tfprobe.analysis.ops.line_costs import FileCost
from tfprobe.errors import Missing, UnreadableInput
from tfprobe.runs.manifests import read_run
from tfprobe.web import names, priced, source_files
from tfprobe.web.code_tree import code_files
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.code import line_row
from tfprobe.web.question import Question

Document = dict[str, Any]  # Any: JSON values

# As many as one looks through; a longer file is asked for around another line.
MOST_LINES = 600
_LINE_CHARACTERS = 400
_MOST_COSTS = 5000


def document(run: OpenRun, question: Question) -> Document:
    """Return 600 lines of a file around `line`, by default its dearest, and the costs of all.

    `unreadable` says why there are no lines. `is_changed` says that the file was changed after
    the job was started: what costs may stand elsewhere now.
    """
    found = priced.priced(run, question)
    files = code_files(run, found)
    file = question.whole("file", default=0, most=max(len(files) - 1, 0))
    line = question.whole("line", default=0)
    cost = files[file]
    costs = sorted(cost.lines.values(), key=lambda each: each.line)
    dearest = _dearest(cost)
    read = source_files.read(cost.file, beside=_started_in(run))
    return {
        **priced.head(run, found),
        "file": file,
        "path": names.shown(cost.file),
        "is_library": cost.is_library,
        "whole": priced.row(found, found.costs.rows.sum(axis=0), priced.missing(found)),
        "dearest_line": dearest,
        "costs": [line_row(found, file, each) for each in costs[:_MOST_COSTS]],
        **_lines(read, line or dearest, run),
    }


def _lines(read: source_files.Source | Missing, around: int, run: OpenRun) -> Document:
    if isinstance(read, Missing):
        return {
            "unreadable": read.reason,
            "first_line": 1,
            "line_count": None,
            "lines": [],
            "is_changed": None,
        }
    count = len(read.lines)
    first = max(0, min(around - MOST_LINES // 2, count - MOST_LINES))
    started_ns = min((each.started_unix_ns for each in run.profile.processes), default=0)
    return {
        "unreadable": None,
        "first_line": first + 1,
        "line_count": count,
        "lines": [
            names.shown(each, _LINE_CHARACTERS) for each in read.lines[first : first + MOST_LINES]
        ],
        "is_changed": bool(started_ns) and read.changed_unix_ns > started_ns,
    }


def _dearest(cost: FileCost) -> int:
    time_ns = AT["time_ns"]
    lines = cost.lines.values()
    return max(
        lines, key=lambda each: (int(each.own[time_ns]), int(each.total[time_ns]), -each.line)
    ).line


def _started_in(run: OpenRun) -> str:
    try:
        return read_run(run.folder.manifest).cwd
    except UnreadableInput:
        return ""
