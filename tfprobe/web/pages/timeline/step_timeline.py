"""One traced step on a time axis, in as much detail as a browser draws.

Where there are too many slices, neighbours become blocks. Times count in ns from the start of the
step. Slices are columns of one table, for there
are thousands: slice i is `start_ns[i]`, `length_ns[i]` and so on.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from tfprobe.analysis.breakdown.step_parts import part_names
from tfprobe.analysis.core.intervals import Intervals, union, within_ns
from tfprobe.analysis.timeline.lanes import Window, drawn
from tfprobe.analysis.timeline.rank_timeline import same_step
from tfprobe.analysis.timeline.slice_categories import CATEGORIES, NUMBER, PartBand, loop_of
from tfprobe.analysis.timeline.tracks import StepTracks, Track, TrackSource, step_tracks
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import Capture, Loop, Profile
from tfprobe.profile.reader.traced_steps import captures_of
from tfprobe.profile.tables import Int64s
from tfprobe.report.documents.document import Document
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params

# A megabyte of JSON; more boxes than a screen has columns for, on each of its rows.
MOST_SLICES = 20_000
MOST_OF_A_BAND = 1_000
MOST_CAPTURES = 1_000
LONGEST = 25
# A name in the drawing; the slice itself tells it in full.
MOST_CHARACTERS = 200
# The letter of a slice's table, by Source: r17 is row 17 of the capture.
SOURCES = "rso"
# Cells of the small picture of the whole step.
CELLS = 240
# A step laid out takes about 50 bytes a slice: some are kept, for whoever goes back and forth.
_KEPT = 3
# What a slice of a trace takes as text of the file for Perfetto, without its name.
_TRACE_BYTES_A_SLICE = 130
_NO_TIME = frozenset(NUMBER[name] for name in ("step", "between", "activity", "function_call"))


def document(run: OpenRun, question: Params) -> Document:
    """Return a captured step, or without `capture=` the captures that there are."""
    if not question.text("capture"):
        return _captures(run, question)
    capture = chosen_capture(run, question)
    laid, fixed = _kept(run, capture)
    whole: Document = fixed["whole"]
    window = Window(
        question.whole("from_ns", default=whole["from_ns"], least=-(2**53), most=2**53),
        question.whole("to_ns", default=whole["to_ns"], least=-(2**53), most=2**53),
    )
    return {
        **fixed,
        "window": _of_window(window),
        "bands": [_band(band, window) for band in laid.bands],
        **_slices(run.profile, laid, window),
    }


def further(run: OpenRun) -> Iterator[dict[str, str | int]]:
    """Give what the page may ask for next: the step that it shows first, then the newest others."""
    if run.profile.captures:
        chosen = _captures(run, Params())["chosen"]
        yield {"capture": chosen}
        for capture in reversed(run.profile.captures):
            if capture.index != chosen:
                yield {"capture": capture.index}


def further_slices(run: OpenRun) -> Iterator[dict[str, str | int]]:
    """Give the longest slices of the step that is shown first."""
    for arguments in itertools.islice(further(run), 1):
        timeline = document(run, Params({name: str(value) for name, value in arguments.items()}))
        for each in timeline["longest"]:
            yield {**arguments, "slice": each["id"]}


def chosen_capture(run: OpenRun, question: Params) -> Capture:
    """Return the requested capture. Raises NoAnswer if there is none."""
    captures = run.profile.captures
    if not captures:
        raise NoAnswer("No step of this run was traced.")
    return captures[question.whole("capture", default=0, least=0, most=len(captures) - 1)]


def laid_out(run: OpenRun, question: Params) -> StepTracks:
    """Return the requested step, laid out."""
    return _kept(run, chosen_capture(run, question))[0]


def ids(laid: StepTracks, at: Int64s) -> list[str]:
    """Return what names slices in an address: their table, and their place in the capture."""
    source, number = laid.slices.source[at].tolist(), laid.slices.number[at].tolist()
    return [f"{SOURCES[table]}{place}" for table, place in zip(source, number, strict=True)]


def texts(profile: Profile, laid: StepTracks, at: Int64s) -> list[tuple[str, str]]:
    """Return of each slice its name, and the type of op or what else is known of it."""
    source, number = laid.slices.source[at], laid.slices.number[at]
    rows, spans = profile.executions, profile.spans
    found: list[tuple[str, str]] = [("", "")] * len(at)
    for place in np.flatnonzero(source == TrackSource.OTHERS).tolist():
        other = laid.others[int(number[place])]
        found[place] = other.name, other.detail
    of_spans = np.flatnonzero(source == TrackSource.SPANS)
    span = laid.span_at[number[of_spans]]
    for place, *names in zip(of_spans.tolist(), spans.name[span], spans.detail[span], strict=True):
        found[place] = spans.strings[names[0]], spans.strings[names[1]]
    of_rows = np.flatnonzero(source == TrackSource.ROWS)
    row = laid.row_at[number[of_rows]]
    columns = [column[row].tolist() for column in (rows.name, rows.detail, rows.op_type)]
    for place, name, detail, op_type in zip(of_rows.tolist(), *columns, strict=True):
        op = rows.strings[op_type]
        found[place] = rows.strings[name] or rows.strings[detail] or op, op
    return found


def cut(text: str) -> str:
    """Return a name as long as it is drawn: its end tells it from others."""
    return text if len(text) <= MOST_CHARACTERS else f"…{text[-MOST_CHARACTERS:]}"


def _kept(run: OpenRun, capture: Capture) -> tuple[StepTracks, Document]:
    """Return a step laid out, with what is the same for every window; the last few are kept."""
    kept: OrderedDict[int, tuple[StepTracks, Document]] = run.made("timelines", OrderedDict)
    if capture.index not in kept:
        known = run.made("names", lambda: part_names(run.profile.executions))
        laid = step_tracks(run.profile, capture, known)
        kept[capture.index] = laid, _fixed(run.profile, laid)
    kept.move_to_end(capture.index)
    while len(kept) > _KEPT:
        kept.popitem(last=False)
    return kept[capture.index]


def _fixed(profile: Profile, laid: StepTracks) -> Document:
    step = laid.capture
    process, loop, whole = profile.processes[step.process], loop_of(profile, step), _whole(laid)
    return {
        "capture": step.index,
        "step": step.step,
        "work": None if loop is None else _loop(profile, loop),
        "process": step.process,
        "host": process.host,
        "label": process.label,
        "rank": process.rank,
        "level": step.level,
        "start_unix_ns": str(step.start_ns),
        "duration_ns": step.duration_ns,
        "usual_ns": None if isinstance(step.plain_ns, Missing) else step.plain_ns,
        "is_shifted": laid.is_shifted,
        "ranks": len(same_step(profile, step)),
        "whole": _of_window(whole),
        "view": {"from_ns": laid.window[0], "to_ns": laid.window[1]},
        "categories": [category._asdict() for category in CATEGORIES],
        "tracks_left_out": laid.tracks_left_out,
        "tracks": [_track(track) for track in laid.tracks],
        "overview": _overview(laid, whole),
        "longest": _longest(profile, laid),
        "trace_bytes": _trace_bytes(profile, laid),
    }


def _captures(run: OpenRun, question: Params) -> Document:
    profile = run.profile
    if not profile.captures:
        raise NoAnswer("No step of this run was traced: there is nothing to draw.")
    loops = list(profile.loops)
    process = question.whole("process", default=-1, least=0, most=len(profile.processes) - 1)
    captures = list(profile.captures)
    if question.text("work"):
        captures = list(captures_of(run.loop(question), profile))
    if process >= 0:
        captures = [capture for capture in captures if capture.process == process]
    main_loop = next((loop for loop in run.loops() if captures_of(loop, profile)), None)
    mine = captures_of(main_loop, profile) if main_loop is not None else profile.captures
    wanted = [capture for capture in mine if capture in captures] or captures
    slices = np.bincount(profile.executions.capture, minlength=len(profile.captures))
    slices += np.bincount(profile.spans.capture, minlength=len(profile.captures))
    number = {(loop.process, loop.index): at for at, loop in enumerate(loops)}
    return {
        "chosen": wanted[-1].index if wanted else None,
        "captures_left_out": max(len(captures) - MOST_CAPTURES, 0),
        "captures": [
            {
                "capture": capture.index,
                "step": capture.step,
                "process": capture.process,
                "work": _number_of(capture, number),
                "duration_ns": capture.duration_ns,
                "slices": int(slices[capture.index]),
            }
            for capture in captures[-MOST_CAPTURES:]
        ],
        "works": [_loop(profile, loop) for loop in loops if captures_of(loop, profile)],
        "processes": [
            {
                "process": recorded.index,
                "host": recorded.host,
                "label": recorded.label,
                "rank": recorded.rank,
            }
            for recorded in profile.processes
        ],
    }


def _number_of(capture: Capture, number: dict[tuple[int, int], int]) -> int | None:
    if isinstance(capture.loop, Missing):
        return None
    return number.get((capture.process, capture.loop))


def _loop(profile: Profile, loop: Loop) -> Document:
    at = profile.loops.index(loop)
    return {"work": at, "process": loop.process, "kind": loop.kind, "name": cut(loop.name)}


def _whole(laid: StepTracks) -> Window:
    slices = laid.slices
    return Window(
        min(int(slices.start_ns.min()), laid.window[0]),
        max(int(slices.end_ns.max()), laid.window[1]),
    )


def _of_window(window: Window) -> Document:
    return {"from_ns": window.from_ns, "to_ns": window.to_ns}


def _track(track: Track) -> Document:
    return {
        "group": cut(track.group),
        "name": cut(track.name),
        "lane": cut(track.lane),
        "rows": track.rows,
        "count": track.last - track.first,
        "left_out": track.left_out,
    }


def _band(band: PartBand, window: Window) -> Document:
    visible = drawn(
        np.zeros(len(band.part), dtype=np.int64),
        band.start_ns,
        band.end_ns,
        window,
        most=MOST_OF_A_BAND,
    )
    total_ns = np.bincount(
        band.part, weights=band.end_ns - band.start_ns, minlength=len(CATEGORIES)
    )
    return {
        "device": band.device,
        "category": band.part[visible.longest].tolist(),
        "start_ns": visible.start_ns.tolist(),
        "length_ns": (visible.end_ns - visible.start_ns).tolist(),
        "total_ns": {
            CATEGORIES[at].name: int(total_ns[at]) for at in np.flatnonzero(total_ns).tolist()
        },
    }


def _slices(profile: Profile, laid: StepTracks, window: Window) -> Document:
    slices = laid.slices
    visible = drawn(slices.row, slices.start_ns, slices.end_ns, window, most=MOST_SLICES)
    known: dict[str, int] = {}

    def number(text: str) -> int:
        return known.setdefault(cut(text), len(known))

    labels = texts(profile, laid, visible.longest)
    name, op = [number(each) for each, _ in labels], [number(each) for _, each in labels]
    return {
        "is_whole": bool(visible.count.max(initial=1) == 1),
        "total": len(slices.row),
        "names": list(known),
        "slices": {
            "id": ids(laid, visible.longest),
            "row": slices.row[visible.longest].tolist(),
            "start_ns": visible.start_ns.tolist(),
            "length_ns": (visible.end_ns - visible.start_ns).tolist(),
            "count": visible.count.tolist(),
            "busy_ns": visible.busy_ns.tolist(),
            "category": slices.category[visible.longest].tolist(),
            "name": name,
            "op": op,
        },
    }


def _overview(laid: StepTracks, whole: Window) -> Document:
    """Return how busy the tracks of each group are, by cells of the whole time."""
    edges: Int64s = np.linspace(whole.from_ns, whole.to_ns, CELLS + 1).astype(np.int64)
    busy: dict[str, Int64s] = {}
    tracks: dict[str, int] = {}
    for track in laid.tracks:
        if track.group == "Step":
            continue
        mine = slice(track.first, track.last)
        moments = union(laid.slices.start_ns[mine], laid.slices.end_ns[mine])
        cells = within_ns(Intervals(*moments), edges[:-1], edges[1:])
        busy[track.group] = busy.get(track.group, np.zeros(CELLS, dtype=np.int64)) + cells
        tracks[track.group] = tracks.get(track.group, 0) + 1
    cell_ns = np.maximum(np.diff(edges), 1)
    return {
        "groups": [
            {
                "group": group,
                "tracks": tracks[group],
                "busy_ratio": np.round(cells / (cell_ns * tracks[group]), 3).tolist(),
            }
            for group, cells in busy.items()
        ]
    }


def _longest(profile: Profile, laid: StepTracks) -> list[Document]:
    slices = laid.slices
    counts = ~np.isin(slices.category, list(_NO_TIME))
    length_ns = np.where(counts, slices.end_ns - slices.start_ns, -1)
    least_ns = np.partition(length_ns, -LONGEST)[-LONGEST] if len(length_ns) > LONGEST else 0
    candidates = np.flatnonzero(length_ns >= max(least_ns, 0))
    order = candidates[np.argsort(-length_ns[candidates], kind="stable")][:LONGEST]
    track = np.searchsorted([track.last for track in laid.tracks], order, side="right")
    named, labels = ids(laid, order), texts(profile, laid, order)
    return [
        {
            "id": named[place],
            "name": cut(labels[place][0]),
            "op": cut(labels[place][1]),
            "track": int(track[place]),
            "category": int(slices.category[at]),
            "start_ns": int(slices.start_ns[at]),
            "duration_ns": int(length_ns[at]),
            "share_ratio": share(int(length_ns[at]), laid.capture),
        }
        for place, at in enumerate(order.tolist())
    ]


def share(length_ns: int, capture: Capture) -> float | None:
    """Return what a length is of the step's, None where that is 0."""
    return round(length_ns / capture.duration_ns, 6) if capture.duration_ns else None


def _trace_bytes(profile: Profile, laid: StepTracks) -> int:
    """Return about how long the file for Perfetto is: boxes, arrows to kernels, what was asked."""
    rows = profile.executions
    lengths = np.array([len(text) for text in rows.strings.values], dtype=np.int64)
    name_bytes = lengths[rows.name[laid.row_at]] if len(laid.row_at) else np.zeros(0, np.int64)
    arrows = rows.place[laid.row_at] == Place.ACCELERATOR
    counted = int((rows.bytes[laid.row_at] > 0).sum())
    boxes = _TRACE_BYTES_A_SLICE * (len(laid.row_at) + counted) + int(name_bytes.sum())
    return boxes + int((2 * (_TRACE_BYTES_A_SLICE + name_bytes[arrows])).sum())
