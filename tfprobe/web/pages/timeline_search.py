"""Where slices of a timeline have a text in their name, their op or what is told of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfprobe.analysis.timeline.tracks import Source
from tfprobe.errors import NoAnswer
from tfprobe.profile.tables import Flags, Int32s, Strings
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.timeline import ids, laid_out
from tfprobe.web.question import Question

MOST_FOUND = 2_000

Document = dict[str, Any]  # Any: JSON, see docs/web.md


def document(run: OpenRun, question: Question) -> Document:
    """Return how many slices have `text=`, how long they take in all, and the first by start.

    Raises NoAnswer without a text.
    """
    if not question.text("text"):
        raise NoAnswer("Name the text to look for.")
    laid, profile = laid_out(run, question), run.profile
    wanted = question.text("text").casefold()
    rows, spans = profile.executions, profile.spans
    in_rows = _having(rows.strings, wanted)
    in_spans = _having(spans.strings, wanted) if spans.strings is not rows.strings else in_rows
    found = np.zeros(len(laid.slices.row), dtype=np.bool_)
    number = laid.slices.number
    of_rows = laid.slices.source == Source.ROWS
    row = laid.row_at[number[of_rows]]
    found[of_rows] = _any(in_rows, rows.name[row], rows.op_type[row], rows.detail[row])
    of_spans = laid.slices.source == Source.SPANS
    span = laid.span_at[number[of_spans]]
    found[of_spans] = _any(in_spans, spans.name[span], spans.detail[span])
    of_others = np.flatnonzero(laid.slices.source == Source.OTHERS)
    found[of_others] = [
        wanted in laid.others[at].name.casefold() for at in number[of_others].tolist()
    ]
    chosen = np.flatnonzero(found)
    length_ns = laid.slices.end_ns[chosen] - laid.slices.start_ns[chosen]
    first = chosen[np.argsort(laid.slices.start_ns[chosen], kind="stable")][:MOST_FOUND]
    return {
        "count": len(chosen),
        "total_ns": int(length_ns.sum()),
        "left_out": len(chosen) - len(first),
        "slices": ids(laid, first),
        "row": laid.slices.row[first].tolist(),
        "start_ns": laid.slices.start_ns[first].tolist(),
        "length_ns": (laid.slices.end_ns[first] - laid.slices.start_ns[first]).tolist(),
    }


def _having(strings: Strings, wanted: str) -> Flags:
    texts = strings.values
    return np.fromiter((wanted in each.casefold() for each in texts), np.bool_, len(texts))


def _any(having: Flags, *columns: Int32s) -> Flags:
    found = having[columns[0]]
    for column in columns[1:]:
        found = found | having[column]
    return found
