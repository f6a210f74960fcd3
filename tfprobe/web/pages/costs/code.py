"""What the code costs: a tree of calls by the lines that made the ops, and all files and lines.

`at` is a place of the tree by its number; numbers are those of `frames`, the job's or all.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.ops.code_view import FileCost, Line, LineCost
from tfprobe.analysis.ops.op_stats import AT
from tfprobe.errors import Missing, UnreadableInput, UsageError
from tfprobe.report.documents.document import Document
from tfprobe.runs.manifests import read_run
from tfprobe.web import loop_costs
from tfprobe.web.code_tree import (
    CodeTree,
    SourceFile,
    TreePlace,
    code_files,
    code_tree,
    fold,
    read_source,
)
from tfprobe.web.loop_costs import LoopCosts
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.costs.scopes import cost_columns
from tfprobe.web.params import Params
from tfprobe.web.values import shown_name

MOST_FILES = 200
MOST_LINES = 1000


def document(run: OpenRun, question: Params) -> Document:
    """Return the calls from `at` down, in columns of places, and the files; of a mean step.

    `number` is what `at` takes, `above` the way to the first place; `file` is the place of a file
    in the list of all, as `source` takes it. `unplaced_ns` is time of ops made at no known line.
    """
    frames = question.one_of("frames", ("all", "job"), default="all")
    metric = question.one_of("metric", tuple(loop_costs.METRICS), default="time")
    at = question.whole("at", default=0)
    return loop_costs.costs_document(
        run, question, lambda found: _document(run, found, frames, metric, at)
    )


def _document(run: OpenRun, found: LoopCosts, frames: str, metric: str, at: int) -> Document:
    tree = code_tree(run, found, with_libraries=frames == "all")
    if at >= len(tree.places):
        raise UsageError(f"There is no place {at:,} in this tree of {len(tree.places):,}.")
    files = code_files(run, found)
    return {
        **loop_costs.head(run, found),
        "frames": frames,
        "metric": metric,
        "at": at,
        "above": _above(tree, at),
        "whole": loop_costs.row(found, tree.view.shown.total, loop_costs.missing(found)),
        "unplaced_ns": _unplaced_ns(found, tree),
        "places": _columns(found, tree, at, metric, files),
        **_files(found, files),
    }


def _columns(
    found: LoopCosts, tree: CodeTree, at: int, metric: str, files: Sequence[FileCost]
) -> Document:
    places = fold(tree.places[at], AT[loop_costs.METRICS[metric]])
    numbers = {id(each): number for number, each in enumerate(tree.places)}
    by_name = {file.file: place for place, file in enumerate(files)}
    lines = [place.shown.branch for place in places]
    frames = [line.frame if isinstance(line, Line) else None for line in lines]
    return {
        "name": [_label(place) for place in places],
        "number": [numbers[id(place.shown)] for place in places],
        "file": [None if frame is None else by_name.get(frame.file) for frame in frames],
        "line": [None if frame is None else frame.line for frame in frames],
        **cost_columns(found, places),
    }


def _label(place: TreePlace) -> str:
    branch = place.shown.branch
    return shown_name(branch.name) if isinstance(branch, Line) and branch.frame else ""


def _above(tree: CodeTree, at: int) -> list[Document]:
    """Return the places on the way down to one, the root first, itself last."""
    parents = {
        id(child): number for number, place in enumerate(tree.places) for child in place.children
    }
    way = [at]
    while way[-1]:
        way.append(parents[id(tree.places[way[-1]])])
    return [
        {"number": number, "name": shown_name(tree.places[number].branch.name) if number else ""}
        for number in reversed(way)
    ]


def _unplaced_ns(found: LoopCosts, tree: CodeTree) -> int:
    unplaced = found.costs.rows[list(tree.view.unplaced)].sum(axis=0)
    return round(int(unplaced[AT["time_ns"]]) / max(found.steps, 1))


def _files(found: LoopCosts, files: Sequence[FileCost]) -> Document:
    """Return the costliest files and the costliest lines of all of them."""
    lines = [
        (file, line)
        for file, each in enumerate(files)
        for line in each.lines.values()
        if line.total[AT["time_ns"]]
    ]
    lines.sort(key=lambda each: (files[each[0]].is_library, _rank(each[1]), each[0]))
    return {
        "files": [_file(found, file, each) for file, each in enumerate(files[:MOST_FILES])],
        "more_files": max(len(files) - MOST_FILES, 0),
        "lines": [
            {"path": shown_name(files[file].file), **line_row(found, file, line)}
            for file, line in lines[:MOST_LINES]
        ],
        "more_lines": max(len(lines) - MOST_LINES, 0),
    }


def _rank(line: LineCost) -> tuple[int, int, int]:
    time_ns = AT["time_ns"]
    return -int(line.own[time_ns]), -int(line.total[time_ns]), line.line


def _file(found: LoopCosts, file: int, cost: FileCost) -> Document:
    return {
        "file": file,
        "path": shown_name(cost.file),
        "is_library": cost.is_library,
        "lines": len(cost.lines),
        **_both(found, cost),
    }


def line_row(found: LoopCosts, file: int, line: LineCost) -> Document:
    """Return a line of a file with what it costs."""
    return {
        "file": file,
        "line": line.line,
        "function": shown_name(line.function),
        **_both(found, line),
    }


def _both(found: LoopCosts, cost: FileCost | LineCost) -> Document:
    unknown = loop_costs.missing(found)
    total, own = (loop_costs.row(found, each, unknown) for each in (cost.total, cost.own))
    return {**total, "own_time_ns": own["time_ns"]}


# As many as one looks through; more of a longer file is requested around another line.
MOST_SOURCE_LINES = 600
_LINE_CHARACTERS = 400
_MOST_COSTS = 5000


def source_document(run: OpenRun, question: Params) -> Document:
    """Return 600 lines of a file around `line`, by default its costliest, and the costs of all.

    `unreadable` says why there are no lines. `is_changed` says that the file was changed after
    the job was started: what costs may stand elsewhere now.
    """
    costs_of_loop = loop_costs.loop_costs_of(run, question)
    files = code_files(run, costs_of_loop)
    file = question.whole("file", default=0, most=max(len(files) - 1, 0))
    line = question.whole("line", default=0)
    cost = files[file]
    costs = sorted(cost.lines.values(), key=lambda line_cost: line_cost.line)
    costliest = _costliest_line(cost)
    read = read_source(cost.file, directory=_started_in(run))
    return {
        **loop_costs.head(run, costs_of_loop),
        "file": file,
        "path": shown_name(cost.file),
        "is_library": cost.is_library,
        "whole": loop_costs.row(
            costs_of_loop, costs_of_loop.costs.rows.sum(axis=0), loop_costs.missing(costs_of_loop)
        ),
        "dearest_line": costliest,
        "costs": [line_row(costs_of_loop, file, line_cost) for line_cost in costs[:_MOST_COSTS]],
        **_lines(read, line or costliest, run),
    }


def _lines(read: SourceFile | Missing, around: int, run: OpenRun) -> Document:
    if isinstance(read, Missing):
        return {
            "unreadable": read.reason,
            "first_line": 1,
            "line_count": None,
            "lines": [],
            "is_changed": None,
        }
    count = len(read.lines)
    first = max(0, min(around - MOST_SOURCE_LINES // 2, count - MOST_SOURCE_LINES))
    started_ns = min((process.started_unix_ns for process in run.profile.processes), default=0)
    return {
        "unreadable": None,
        "first_line": first + 1,
        "line_count": count,
        "lines": [
            shown_name(line, _LINE_CHARACTERS)
            for line in read.lines[first : first + MOST_SOURCE_LINES]
        ],
        "is_changed": bool(started_ns) and read.changed_unix_ns > started_ns,
    }


def _costliest_line(cost: FileCost) -> int:
    time_ns = AT["time_ns"]
    lines = cost.lines.values()
    return max(
        lines, key=lambda line: (int(line.own[time_ns]), int(line.total[time_ns]), -line.line)
    ).line


def _started_in(run: OpenRun) -> str:
    try:
        return read_run(run.folder.manifest).cwd
    except UnreadableInput:
        return ""
