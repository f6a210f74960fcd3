"""What the code costs: a tree of calls by the lines that made the ops, and all files and lines.

`at` is a place of the tree by its number; numbers are those of `frames`, the job's or all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfprobe.analysis.ops.code_view import Line
from tfprobe.analysis.ops.costs import AT
from tfprobe.analysis.ops.line_costs import FileCost, LineCost
from tfprobe.errors import UsageError
from tfprobe.web import folded, names, priced
from tfprobe.web.code_tree import CodeTree, code_files, code_tree
from tfprobe.web.folded import Place
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.scopes import cost_columns
from tfprobe.web.priced import Priced
from tfprobe.web.question import Question

Document = dict[str, Any]  # Any: JSON values

MOST_FILES = 200
MOST_LINES = 1000


def document(run: OpenRun, question: Question) -> Document:
    """Return the calls from `at` down, in columns of places, and the files; of a mean step.

    `number` is what `at` takes, `above` the way to the first place; `file` is the place of a file
    in the list of all, as `source` takes it. `unplaced_ns` is time of ops made at no known line.
    """
    frames = question.one_of("frames", ("all", "job"), default="all")
    metric = question.one_of("metric", tuple(priced.METRICS), default="time")
    at = question.whole("at", default=0)
    return priced.told(run, question, lambda found: _document(run, found, frames, metric, at))


def _document(run: OpenRun, found: Priced, frames: str, metric: str, at: int) -> Document:
    tree = code_tree(run, found, with_libraries=frames == "all")
    if at >= len(tree.places):
        raise UsageError(f"There is no place {at:,} in this tree of {len(tree.places):,}.")
    files = code_files(run, found)
    return {
        **priced.head(run, found),
        "frames": frames,
        "metric": metric,
        "at": at,
        "above": _above(tree, at),
        "whole": priced.row(found, tree.view.shown.total, priced.missing(found)),
        "unplaced_ns": _unplaced_ns(found, tree),
        "places": _columns(found, tree, at, metric, files),
        **_files(found, files),
    }


def _columns(
    found: Priced, tree: CodeTree, at: int, metric: str, files: Sequence[FileCost]
) -> Document:
    places = folded.fold(tree.places[at], AT[priced.METRICS[metric]])
    numbers = {id(each): number for number, each in enumerate(tree.places)}
    by_name = {each.file: place for place, each in enumerate(files)}
    lines = [place.shown.branch for place in places]
    frames = [each.frame if isinstance(each, Line) else None for each in lines]
    return {
        "name": [_label(place) for place in places],
        "number": [numbers[id(place.shown)] for place in places],
        "file": [None if each is None else by_name.get(each.file) for each in frames],
        "line": [None if each is None else each.line for each in frames],
        **cost_columns(found, places),
    }


def _label(place: Place) -> str:
    branch = place.shown.branch
    return names.shown(branch.name) if isinstance(branch, Line) and branch.frame else ""


def _above(tree: CodeTree, at: int) -> list[Document]:
    """Return the places on the way down to one, the root first, itself last."""
    parents = {
        id(child): number for number, each in enumerate(tree.places) for child in each.children
    }
    way = [at]
    while way[-1]:
        way.append(parents[id(tree.places[way[-1]])])
    return [
        {"number": number, "name": names.shown(tree.places[number].branch.name) if number else ""}
        for number in reversed(way)
    ]


def _unplaced_ns(found: Priced, tree: CodeTree) -> int:
    unplaced = found.costs.rows[list(tree.view.unplaced)].sum(axis=0)
    return round(int(unplaced[AT["time_ns"]]) / max(found.steps, 1))


def _files(found: Priced, files: Sequence[FileCost]) -> Document:
    """Return the dearest files and the dearest lines of all of them."""
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
            {"path": names.shown(files[file].file), **line_row(found, file, line)}
            for file, line in lines[:MOST_LINES]
        ],
        "more_lines": max(len(lines) - MOST_LINES, 0),
    }


def _rank(line: LineCost) -> tuple[int, int, int]:
    time_ns = AT["time_ns"]
    return -int(line.own[time_ns]), -int(line.total[time_ns]), line.line


def _file(found: Priced, file: int, cost: FileCost) -> Document:
    return {
        "file": file,
        "path": names.shown(cost.file),
        "is_library": cost.is_library,
        "lines": len(cost.lines),
        **_both(found, cost),
    }


def line_row(found: Priced, file: int, line: LineCost) -> Document:
    """Return a line of a file with what it costs."""
    return {
        "file": file,
        "line": line.line,
        "function": names.shown(line.function),
        **_both(found, line),
    }


def _both(found: Priced, cost: FileCost | LineCost) -> Document:
    unknown = priced.missing(found)
    total, own = (priced.row(found, each, unknown) for each in (cost.total, cost.own))
    return {**total, "own_time_ns": own["time_ns"]}
