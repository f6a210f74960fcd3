"""What the scopes of a work cost, or its layers: a tree by the parts of names, down from `at`."""

from __future__ import annotations

from typing import Any

from tfprobe.analysis.ops.costs import AT, Int64s
from tfprobe.analysis.ops.scope_view import SCOPE_TYPE
from tfprobe.errors import NoAnswer
from tfprobe.web import folded, names, priced
from tfprobe.web.folded import Place
from tfprobe.web.opened import OpenRun
from tfprobe.web.priced import Priced
from tfprobe.web.question import Question
from tfprobe.web.scope_tree import scope_tree

Document = dict[str, Any]  # Any: JSON values


def document(run: OpenRun, question: Question) -> Document:
    """Return the scopes from `at` down, in columns of places, with costs of a mean step.

    The path of a place is that of its parent, "/" and its name; that of the first is `at`. It
    cannot be asked for where `is_whole` is false.
    """
    by = question.one_of("by", ("scope", "layer"), default="scope")
    metric = question.one_of("metric", tuple(priced.METRICS), default="time")
    at = question.text("at")
    return priced.told(run, question, lambda found: _document(run, found, by, metric, at))


def _document(run: OpenRun, found: Priced, by: str, metric: str, at: str) -> Document:
    tree = scope_tree(run, found, layers=by == "layer")
    top = tree.by_path.get(at)
    if top is None:
        raise NoAnswer(f"No op of this work has the scope {names.shown(at)!r}.")
    return {
        **priced.head(run, found),
        "by": by,
        "metric": metric,
        "at": at,
        "whole": priced.row(found, tree.root.total, priced.missing(found)),
        "places": _columns(found, folded.fold(top, AT[priced.METRICS[metric]]), at),
    }


def _columns(found: Priced, places: list[Place], at: str) -> Document:
    labels = [_label(places, place, at) for place in places]
    return {
        "name": [names.shown(each) for each in labels],
        "is_whole": [names.is_whole(each) for each in labels],
        "type": [_type(found, place) for place in places],
        **cost_columns(found, places),
    }


def cost_columns(found: Priced, places: list[Place]) -> Document:
    """Return the columns that all trees have: parents, costs, and what is too small to be told."""
    unknown = priced.missing(found)
    totals = [priced.row(found, place.shown.total, unknown) for place in places]
    owns = [priced.row(found, _own(place), unknown) for place in places]
    steps = max(found.steps, 1)
    return {
        "parent": [place.parent for place in places],
        **{name: [each[name] for each in totals] for name in priced.COLUMNS},
        "own_time_ns": [each["time_ns"] for each in owns],
        "smaller": [place.smaller for place in places],
        "smaller_cost": [round(place.smaller_cost / steps) for place in places],
    }


def _own(place: Place) -> Int64s:
    return place.shown.branch.own


def _label(places: list[Place], place: Place, at: str) -> str:
    """Return the last part of a name; the first place has that of `at`."""
    name = place.shown.branch.name
    if place.parent < 0:
        return at.rpartition("/")[2]
    above = places[place.parent]
    prefix = above.shown.branch.name if above.parent >= 0 or at else ""
    return name[len(prefix) + 1 :] if prefix else name


def _type(found: Priced, place: Place) -> str | None:
    """Return the op of a place that is a node, None of a scope."""
    branch = place.shown.branch
    if not branch.members or SCOPE_TYPE in branch.types:
        return None
    return names.shown(found.sampled.graph.nodes[branch.members[0]].op)
