"""Read the single trace that a profiler service recorded: each step in it becomes a capture."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.formats import xspace
from tfprobe.formats.trace import Marker, Trace
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.capture_tables import Place, SpanKind, Spans
from tfprobe.profile.profile import SERVICE_KIND, Capture, Durations, Loop, RecentSteps, bucket_of
from tfprobe.profile.tables import Int64s, Interner, T
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.manifests import ProcessManifest
from tfprobe.runs.safe_files import content_of

UNTOLD = Missing("the profiler service does not report it, and there was no agent")
# The name of the only step of a trace that has no step boundaries.
_WHOLE = "the whole recording"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The loop of a process, its steps, the trace cut into them, and the gaps between them."""

    loop: Loop
    captures: tuple[Capture, ...]
    trace: Trace
    gaps: tuple[Gap, ...]


def whole_steps(content: bytes) -> int:
    """Return the number of complete steps that an XSpace distinguishes, 0 if none.

    Raises UnreadableInput if the bytes are not an XSpace or contain no plane.
    """
    found = cut(xspace.read(content))
    return len(found[0]) if found else 0


def read(
    folder: ProcessFolder, manifest: ProcessManifest, interner: Interner, *, process: int
) -> Recorded:
    """Return what was recorded, on the wall clock. Strings become positions in `interner`.

    Steps are those that the program marked, else runs of a Session, else the calls of one
    tf.function; a trace without any of these is one step.

    Raises UnreadableInput if there is no trace, or none with steps.
    """
    path = _trace_file(folder)
    trace = xspace.XSpaceReader(interner).read(_content(path))
    if not trace.is_unix:
        # Until TF 2.14 times count from the start of the recording, which is known to the ms.
        trace = trace.moved(manifest.started_unix_ns)
    steps, trace = in_steps(trace)
    if not trace.tells_of_steps:
        raise UnreadableInput(f"{path.name}: {trace.why_empty}")
    captures = _captures(steps, path.name, process, trace.programs)
    return Recorded(_loop(steps, captures, process), captures, trace, tuple(_gaps(captures)))


def _trace_file(folder: ProcessFolder) -> Path:
    files = folder.capture_files()
    if not files:
        raise UnreadableInput("captures/ holds no trace")
    return files[0]


def _content(path: Path) -> bytes:
    try:
        return content_of(path)
    except OSError as exc:
        raise UnreadableInput(f"{path.name} cannot be read, {exc.strerror or exc}") from exc


def _captures(
    steps: Sequence[Marker], file: str, process: int, programs: tuple[tuple[str, int], ...]
) -> tuple[Capture, ...]:
    captures = tuple(
        Capture(
            index=index,
            process=process,
            loop=0,
            step=step.number,
            file=file,
            level="window",
            start_ns=step.start_ns,
            duration_ns=step.end_ns - step.start_ns,
            plain_ns=Missing("all steps were recorded, and none without"),
            programs=programs,
        )
        for index, step in enumerate(steps)
    )
    if are_numbered(captures):
        return captures
    # Keras numbers the steps of each epoch from 0, so a number would be ambiguous.
    return tuple(replace(capture, step=capture.index) for capture in captures)


def _gaps(captures: Sequence[Capture]) -> Iterator[Gap]:
    """Yield the gap after each step but the last. What Python did in it was not watched."""
    for one, after in itertools.pairwise(captures):
        end_ns = one.start_ns + one.duration_ns
        gap_ns = after.start_ns - end_ns
        unknown = Call(None, "", "", 0, 0, is_generator=False, count=1, self_ns=gap_ns)
        yield Gap(one.process, 0, one.step, end_ns, gap_ns, 0, cut=False, calls=(unknown,))


def _loop(steps: Sequence[Marker], captures: Sequence[Capture], process: int) -> Loop:
    recent = recent_of(captures)
    # All steps were traced alike: none is an outlier next to untraced ones.
    recent = replace(recent, sampled=np.zeros_like(recent.sampled))
    return Loop(
        process=process,
        index=0,
        kind=SERVICE_KIND,
        name=steps[0].name or _WHOLE,
        thread="",
        executed=len(captures),
        raised=0,
        sampled=len(captures),
        retraces=0,
        steps_per_execution=1,
        optimizer_steps=UNTOLD,
        times=times_of(captures),
        gaps=gaps_of(captures),
        recent=recent,
        first_seen_ns=captures[0].start_ns,
    )


def in_steps(trace: Trace) -> tuple[list[Marker], Trace]:
    """Return the steps of a trace, and the trace with the index of each row's step as its capture.

    Steps are those that are marked, else the calls of one tf.function, else all is one step. An
    execution belongs to the step in which it starts. What an accelerator starts outside any step
    belongs to the step that launched it, if known; everything else outside of steps is left out.
    """
    return cut(trace) or ([_extent(trace)], trace)


def cut(trace: Trace) -> tuple[list[Marker], Trace] | None:
    """Do what `in_steps` does, but return None if the trace does not distinguish steps."""
    for windows in (_apart(trace.markers), _apart(_calls(trace.spans))):
        found = _divided(trace, windows) if windows else None
        if found is not None:
            return found
    return None


def _divided(trace: Trace, windows: list[Marker]) -> tuple[list[Marker], Trace] | None:
    """Return the steps in which anything happened; None if there is none."""
    places = _Windows(windows)
    of_row = _launched(trace, places.at(trace.rows.start_ns), places)
    of_span = places.at(trace.spans.start_ns)
    ran = np.union1d(of_row[of_row >= 0], of_span[of_span >= 0])
    if not len(ran):
        return None
    number = np.full(len(windows) + 1, -1)  # the last is for rows of no step, whose place is -1
    number[ran] = np.arange(len(ran))
    divided = Trace(
        rows=_of_steps(trace.rows, number[of_row]),
        spans=_of_steps(trace.spans, number[of_span]),
        allocations=_of_steps(trace.allocations, number[places.at(trace.allocations.at_ns)]),
        is_unix=trace.is_unix,
        has_calls=trace.has_calls,
        programs=trace.programs,
        nodes=trace.nodes,
        origin=trace.origin,
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
    """Consecutive windows of time."""

    def __init__(self, windows: list[Marker]) -> None:
        self._starts_ns = np.array([window.start_ns for window in windows], dtype=np.int64)
        self._ends_ns = np.array([window.end_ns for window in windows], dtype=np.int64)

    def at(self, moments_ns: Int64s) -> Int64s:
        """Return which window contains each moment, -1 for none."""
        at = np.searchsorted(self._starts_ns, moments_ns, side="right") - 1
        within = (at >= 0) & (moments_ns < self._ends_ns[np.maximum(at, 0)])
        found: Int64s = np.where(within, at, -1)
        return found


def _apart(windows: Iterable[Marker]) -> list[Marker]:
    """Return the windows that start after the end of the one before and are not empty."""
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
    """Return the windows of rows; outside of any, the launch's for accelerator rows."""
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


_NO_TIMES = np.zeros(0, dtype=np.int64)
NO_DURATIONS = Durations(0, 0, 0, 0, _NO_TIMES)
NO_STEPS = RecentSteps(
    0, _NO_TIMES, _NO_TIMES, _NO_TIMES.astype(np.bool_), _NO_TIMES.astype(np.bool_)
)


def times_of(captures: Sequence[Capture]) -> Durations:
    """Return the durations of the steps, of which there must be at least one."""
    return _durations([capture.duration_ns for capture in captures])


def gaps_of(captures: Sequence[Capture]) -> Durations:
    """Return the times from the end of each step to the start of the next."""
    pairs = itertools.pairwise(captures)
    gaps_ns = [max(after.start_ns - one.start_ns - one.duration_ns, 0) for one, after in pairs]
    return _durations(gaps_ns) if gaps_ns else NO_DURATIONS


def recent_of(captures: Sequence[Capture]) -> RecentSteps:
    """Return the steps as those of a run; none if a number is missing."""
    if not are_numbered(captures):
        return NO_STEPS
    first, count = captures[0].step, len(captures)
    starts_ns = np.array([capture.start_ns for capture in captures], dtype=np.int64)
    ends_ns = starts_ns + np.array([capture.duration_ns for capture in captures], dtype=np.int64)
    sampled = np.ones(count, dtype=np.bool_)
    return RecentSteps(first, starts_ns, ends_ns, sampled, ~sampled)


def are_numbered(captures: Sequence[Capture]) -> bool:
    """Return whether the steps are numbered consecutively."""
    first = captures[0].step
    return [capture.step for capture in captures] == list(range(first, first + len(captures)))


def _durations(durations_ns: Sequence[int]) -> Durations:
    buckets = np.bincount(bucket_of(np.array(durations_ns, dtype=np.int64))).astype(np.int64)
    return Durations(
        len(durations_ns), sum(durations_ns), min(durations_ns), max(durations_ns), buckets
    )
