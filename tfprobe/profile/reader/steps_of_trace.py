"""Cut the trace of a whole file into steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from tfprobe.formats.trace import Marker, Trace
from tfprobe.profile.executions import Place
from tfprobe.profile.spans import SpanKind, Spans
from tfprobe.profile.tables import Int64s, T


def in_steps(trace: Trace) -> tuple[list[Marker], Trace]:
    """Return the steps of a trace, and the trace with the place of each row's step as its capture.

    Steps are those that are marked, else the calls of one tf.function, else all is one. An
    execution belongs to the step in which it starts. What an accelerator starts in none belongs to
    the step that launched it, where that is known; all else outside of steps is left out.
    """
    return cut(trace) or ([_extent(trace)], trace)


def cut(trace: Trace) -> tuple[list[Marker], Trace] | None:
    """Return what `in_steps` does, None where the trace does not tell its steps apart."""
    for windows in (_apart(trace.markers), _apart(_calls(trace.spans))):
        found = _divided(trace, windows) if windows else None
        if found is not None:
            return found
    return None


def _divided(trace: Trace, windows: list[Marker]) -> tuple[list[Marker], Trace] | None:
    """Return the steps in which anything happened, None where there is none."""
    places = _Windows(windows)
    of_row = _launched(trace, places.at(trace.rows.start_ns), places)
    of_span = places.at(trace.spans.start_ns)
    ran = np.union1d(of_row[of_row >= 0], of_span[of_span >= 0])
    if not len(ran):
        return None
    number = np.full(len(windows) + 1, -1)  # the last one is for rows of no step, whose place is -1
    number[ran] = np.arange(len(ran))
    divided = Trace(
        rows=_of_steps(trace.rows, number[of_row]),
        spans=_of_steps(trace.spans, number[of_span]),
        allocations=_of_steps(trace.allocations, number[places.at(trace.allocations.at_ns)]),
        is_unix=trace.is_unix,
        has_calls=trace.has_calls,
    )
    return [windows[at] for at in ran.tolist()], divided


def _of_steps(table: T, steps: Int64s) -> T:
    """Return the rows that belong to a step, step by step."""
    kept = steps >= 0
    return replace(table.only(kept), capture=steps[kept].astype(np.int32)).by("capture")


def _extent(trace: Trace) -> Marker:
    if not len(trace.rows):
        return Marker(0, 0, 0)
    ends_ns = trace.rows.start_ns + trace.rows.duration_ns
    return Marker(0, int(trace.rows.start_ns.min()), int(ends_ns.max()))


class _Windows:
    """Windows of time, one after the other."""

    def __init__(self, windows: list[Marker]) -> None:
        self._starts_ns = np.array([each.start_ns for each in windows], dtype=np.int64)
        self._ends_ns = np.array([each.end_ns for each in windows], dtype=np.int64)

    def at(self, moments_ns: Int64s) -> Int64s:
        """Return which window each moment is in, -1 for none."""
        at = np.searchsorted(self._starts_ns, moments_ns, side="right") - 1
        within = (at >= 0) & (moments_ns < self._ends_ns[np.maximum(at, 0)])
        found: Int64s = np.where(within, at, -1)
        return found


def _apart(windows: Iterable[Marker]) -> list[Marker]:
    """Return the windows that begin after the one before has ended, and last."""
    kept: list[Marker] = []
    for window in sorted(windows, key=lambda each: (each.start_ns, -each.end_ns)):
        if window.end_ns > window.start_ns and (not kept or window.start_ns >= kept[-1].end_ns):
            kept.append(window)
    return kept


def _calls(spans: Spans) -> tuple[Marker, ...]:
    """Return the outermost calls of the tf.function that took the most time, on its thread."""
    outermost = list(_outermost_calls(spans))
    totals_ns: dict[tuple[int, int], int] = defaultdict(int)
    for at in outermost:
        totals_ns[int(spans.lane[at]), int(spans.name[at])] += int(spans.duration_ns[at])
    if not totals_ns:
        return ()
    chosen = max(totals_ns, key=lambda key: totals_ns[key])
    mine = [at for at in outermost if (int(spans.lane[at]), int(spans.name[at])) == chosen]
    starts_ns = spans.start_ns[mine]
    columns = zip(starts_ns.tolist(), (starts_ns + spans.duration_ns[mine]).tolist(), strict=True)
    name = spans.strings[chosen[1]]
    return tuple(Marker(number, *times, name) for number, times in enumerate(columns))


def _outermost_calls(spans: Spans) -> Iterator[int]:
    ends_ns: dict[int, int] = {}
    for at in np.flatnonzero(spans.kind == SpanKind.FUNCTION_CALL).tolist():
        lane, start_ns = int(spans.lane[at]), int(spans.start_ns[at])
        if start_ns >= ends_ns.get(lane, -1):
            ends_ns[lane] = start_ns + int(spans.duration_ns[at])
            yield at


def _launched(trace: Trace, windows: Int64s, places: _Windows) -> Int64s:
    """Return the windows of rows, those of the launch for what an accelerator started in none."""
    rows, spans = trace.rows, trace.spans
    late = (windows < 0) & (rows.place != Place.HOST) & (rows.correlation != 0)
    order = np.argsort(spans.correlation, kind="stable")
    known = spans.correlation[order]
    if not late.any() or not known.any():
        return windows
    at = np.minimum(np.searchsorted(known, rows.correlation), len(known) - 1)
    launched = late & (known[at] == rows.correlation)
    found: Int64s = np.where(launched, places.at(spans.start_ns[order[at]]), windows)
    return found
