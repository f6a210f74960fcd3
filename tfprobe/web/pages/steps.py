"""All steps of a loop: how long they took, which stand out, and in which phase they were."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfprobe.analysis.core import no_data_reasons
from tfprobe.analysis.steps.outliers import Outlier, Outliers
from tfprobe.analysis.steps.phases import drawn_segments, life
from tfprobe.analysis.steps.recompilations import concerns, sites_of
from tfprobe.analysis.steps.step_series import series, usual_most_ns
from tfprobe.analysis.steps.step_times import Distribution
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.profile import Loop, Profile, bucket_bounds_ns, bucket_of
from tfprobe.report.documents import step_report
from tfprobe.report.documents.document import Document
from tfprobe.report.documents.run_report import queue_note
from tfprobe.report.documents.step_report import (
    LoopStepReport,
    distribution_document,
    life_document,
    trend_document,
)
from tfprobe.web.opened import OpenRun, Reading
from tfprobe.web.pages.loop_choice import loops_document
from tfprobe.web.params import Params
from tfprobe.web.step_columns import (
    bands_of,
    marked_steps,
    series_document,
    shown_outlier,
    shown_outliers,
)
from tfprobe.web.values import facts

# A process that evaluates after each epoch has two stretches an epoch; the bar of all is about
# twice as many pixels wide.
_COLUMNS = 400
_MOST_COMPILATIONS = 200


def document(run: OpenRun, question: Params) -> Document:
    """Return the steps of the loop `work=`, made of what needs no capture.

    `first=` and `end=` zoom into these steps: then the document has the curve alone.
    """
    early = run.early
    if not early.profile.loops:
        why = "no step has been recorded"
        return {
            "work": None,
            "missing": why,
            "silences": list(no_data_reasons.explain(early.profile)),
        }
    loop = early.loop(question)
    place, found = early.place(loop), loop_steps(early, loop)
    most = loop.executed
    first = question.whole("first", default=0, most=most)
    end = question.whole("end", default=most, most=most)
    near = first > 0 or end < most
    curve = series_document(series(found.remembered, first=first, end=end))
    if near:
        return {"work": place, "series": curve}
    return {"works": loops_document(early), "work": place, "series": curve} | early.made(
        ("steps", place), lambda: _steps(early.profile, found)
    )


def loop_steps(early: Reading, loop: Loop) -> LoopStepReport:
    """Return what is known of the steps of a loop, made once."""
    place = early.place(loop)
    return early.made(
        ("work steps", place), lambda: step_report.loop_step_report(early.profile, loop)
    )


def step(run: OpenRun, question: Params) -> Document:
    """Return one step, `step=` of `work=`, with the gap before it and why it took long if it did.

    Raises NoAnswer where it is not remembered.
    """
    early = run.early
    loop = early.loop(question)
    found = loop_steps(early, loop)
    remembered = found.remembered
    number = question.whole("step", default=remembered.first_step)
    row = number - remembered.first_step
    if not 0 <= row < len(remembered):
        raise NoAnswer(_forgotten(number, found))
    bands = early.made(("bands", early.place(loop)), lambda: bands_of(early.profile, found))
    phases = (b["phase"] for b in bands if b["first_step"] <= number <= b["last_step"])
    shift_ns = found.process.unix_minus_monotonic_ns
    start_ns = int(remembered.start_ns[row])
    return {
        "work": early.place(loop),
        "step": number,
        "duration_ns": int(remembered.step_ns[row]),
        "gap_ns": int(remembered.gap_ns[row]) if remembered.has_gap[row] else None,
        "start_unix_ns": None if isinstance(shift_ns, Missing) else start_ns + shift_ns,
        "is_sampled": bool(remembered.sampled[row]),
        "has_raised": bool(remembered.raised[row]),
        "counts": bool(remembered.counts[row]),
        "phase": next(phases, None),
        "slow": _outlier(found.slow_steps, number),
        "gap": _outlier(found.long_gaps, number),
        "usual_ns": _usual_ns(found.slow_steps),
        "usual_gap_ns": _usual_ns(found.long_gaps),
    }


def _steps(profile: Profile, found: LoopStepReport) -> Document:
    loop, remembered = found.item.loop, found.remembered
    return {
        "facts": _facts(found),
        **({} if loop.queue is None else {"queue_note": queue_note(loop, loop.queue)}),
        "first_step": remembered.first_step,
        "remembered": len(remembered),
        "is_whole": remembered.is_whole,
        "step_times": _distribution(found.steps),
        "gap_times": _distribution(found.gaps),
        "slow_steps": shown_outliers(found.slow_steps),
        "long_gaps": shown_outliers(found.long_gaps),
        "trend": trend_document(found.trend),
        "usual_most_ns": usual_most_ns(remembered),
        "bands": bands_of(profile, found),
        "sampled_steps": marked_steps(remembered, remembered.sampled),
        "raised_steps": marked_steps(remembered, remembered.raised),
        "life": _life(profile, loop),
        **_compilations(profile, loop),
        **_graph_breaks(profile, loop),
    }


def _compilations(profile: Profile, loop: Loop) -> Document:
    """Return what was compiled for the loop, longest first; nothing if nothing was."""
    found = [each for each in profile.compilations if concerns(each, loop)]
    if not found:
        return {}
    started_ns = profile.processes[loop.process].started_unix_ns
    longest = sorted(found, key=lambda compilation: -compilation.duration_ns)
    rows = [
        {
            **step_report.compilation_document(compilation),
            # A script holds no Unix time in ns exactly.
            "start_unix_ns": None,
            "since_start_ns": compilation.start_ns - started_ns if started_ns else None,
        }
        for compilation in longest[:_MOST_COMPILATIONS]
    ]
    return {"compilations": {"count": len(found), "rows": rows}}


def _graph_breaks(profile: Profile, loop: Loop) -> Document:
    """Return where graphs of torch.compile break, most frequent first; nothing if none does."""
    sites = sites_of(found for found in profile.graph_breaks if concerns(found, loop))
    if not sites:
        return {}
    in_order = sorted(sites, key=lambda site: -site.count)[:_MOST_COMPILATIONS]
    rows = [
        {
            "step": site.step,
            "name": site.name,
            "source": site.source or None,
            "count": site.count,
            "reason": site.reason,
            "skipped": site.is_skipped,
        }
        for site in in_order
    ]
    return {"graph_breaks": {"count": len(sites), "rows": rows}}


def _facts(found: LoopStepReport) -> Document:
    loop = found.item.loop
    return facts(
        {
            "count": loop.count,
            "raised": loop.raised,
            "sampled": loop.sampled,
            "retraces": loop.retraces,
            "steps_per_execution": loop.steps_per_execution,
            "optimizer_steps": loop.optimizer_steps,
            "thread": loop.thread,
            "warm_up_steps": found.warm_up_steps,
        }
    )


def _distribution(found: Distribution | Missing) -> Document:
    document = distribution_document(found)
    if isinstance(found, Missing):
        return document
    del document["histogram_ns"]
    return {**document, "bars": _bars(found)}


def _bars(found: Distribution) -> list[list[float]]:
    """Return the buckets from the first to the last, those of nothing between them too."""
    counts = {bar.low_ns: bar.count for bar in found.bars}
    ends = [bucket_of(np.array([bar.low_ns], dtype=np.int64)) for bar in found.bars]
    if not ends:
        return []
    bounds = (bucket_bounds_ns(bucket) for bucket in range(int(ends[0][0]), int(ends[-1][0]) + 1))
    return [[low, high, counts.get(low, 0)] for low, high in bounds]


def _life(profile: Profile, loop: Loop) -> Document:
    found = life(profile, profile.processes[loop.process])
    document = life_document(found)
    if isinstance(found, Missing):
        return document
    segments = drawn_segments(found, _COLUMNS)
    return {
        **document,
        # A script holds no Unix time in ns exactly.
        "segments": [
            [segment.phase, segment.start_ns - found.start_ns, segment.end_ns - found.start_ns]
            for segment in segments
        ],
        "column_ns": None if segments is found.segments else found.wall_ns // _COLUMNS,
    }


def _outlier(found: Outliers | Missing, number: int) -> Document | None:
    if isinstance(found, Missing):
        return None
    these: Any = (each for each in found.found if each.step == number)
    outlier: Outlier | None = next(these, None)
    return None if outlier is None else shown_outlier(outlier)


def _usual_ns(found: Outliers | Missing) -> float | None:
    return None if isinstance(found, Missing) else found.usual_ns


def _forgotten(number: int, found: LoopStepReport) -> str:
    remembered = found.remembered
    if not len(remembered):
        return "No step of this loop is on record."
    last = remembered.first_step + len(remembered) - 1
    why = f"Steps {remembered.first_step:,} to {last:,} are on record."
    return f"Step {number:,} is not on record. {why}"
