"""Gather what is known of the steps of a run, and write it as a document."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tfprobe.analysis.steps import outliers, step_times
from tfprobe.analysis.steps.outliers import Outlier, Outliers
from tfprobe.analysis.steps.phases import PHASES, Life, life
from tfprobe.analysis.steps.recompilations import reason_of
from tfprobe.analysis.steps.slow_step_causes import Cause, Causes
from tfprobe.analysis.steps.step_series import Trend, trend
from tfprobe.analysis.steps.step_times import (
    QUANTILES,
    Distribution,
    RecentStep,
    recent_steps,
    step_time_summary,
)
from tfprobe.analysis.steps.step_window import StepWindow, recent_window, warm_up_steps
from tfprobe.errors import Missing
from tfprobe.profile.compilations import Compilation, GraphBreak
from tfprobe.profile.profile import Loop, Process, Profile, Run
from tfprobe.report.documents import run_report
from tfprobe.report.documents.document import Document
from tfprobe.report.documents.run_report import LoopReport

SCHEMA = "tfprobe.steps/1"
# Of more only the number and the time are shown.
SHOWN_OUTLIERS = 100


@dataclass(frozen=True, slots=True)
class LoopStepReport:
    """A loop with the distribution of its steps and gaps, what stands out, and its trend.

    `remembered` are the steps that outliers, trend and warm-up are computed from.
    """

    process: Process
    item: LoopReport
    remembered: StepWindow
    steps: Distribution | Missing
    gaps: Distribution | Missing
    slow_steps: Outliers | Missing
    long_gaps: Outliers | Missing
    trend: Trend | Missing
    warm_up_steps: int | Missing
    recent: tuple[RecentStep, ...]


@dataclass(frozen=True, slots=True)
class StepsReport:
    """The lives of the processes of a run, and the loops of each with most time first.

    `compilations` are those of JAX and torch.compile in the order of time, each with its process,
    and so are the breaks of graphs that the latter found.
    """

    run: Run
    lives: tuple[tuple[Process, Life | Missing], ...]
    loops: tuple[LoopStepReport, ...]
    compilations: tuple[tuple[Process, Compilation], ...] = ()
    graph_breaks: tuple[tuple[Process, GraphBreak], ...] = ()


def gather_steps(profile: Profile, *, last: int, named: str = "") -> StepsReport:
    """Return what there is to say; `named` keeps works with this in their kind and name."""
    processes = [run_report.process_report(process, profile) for process in profile.processes]
    loops = tuple(
        _of(profile, process.process, item, last)
        for process in processes
        for item in process.loops
        if named in f"{item.loop.kind} {item.loop.name}"
    )
    lives = tuple((process.process, life(profile, process.process)) for process in processes)
    compilations = _compilations(profile, loops, named)
    return StepsReport(profile.run, lives, loops, compilations, _breaks(profile, loops, named))


def _compilations(
    profile: Profile, loops: tuple[LoopStepReport, ...], named: str
) -> tuple[tuple[Process, Compilation], ...]:
    """Return the compilations of these loops; without a name also those of no loop."""
    kept = _keys(loops)
    chosen = (
        compilation
        for compilation in profile.compilations
        if (compilation.process, compilation.loop) in kept or not named
    )
    in_order = sorted(chosen, key=lambda compilation: compilation.start_ns)
    return tuple((profile.processes[each.process], each) for each in in_order)


def _breaks(
    profile: Profile, loops: tuple[LoopStepReport, ...], named: str
) -> tuple[tuple[Process, GraphBreak], ...]:
    kept = _keys(loops)
    return tuple(
        (profile.processes[found.process], found)
        for found in sorted(profile.graph_breaks, key=lambda found: found.unix_ns)
        if (found.process, found.loop) in kept or not named
    )


def _keys(loops: tuple[LoopStepReport, ...]) -> set[tuple[int, int | None]]:
    return {(each.process.index, each.item.loop.index) for each in loops}


def loop_step_report(profile: Profile, loop: Loop, *, last: int = 0) -> LoopStepReport:
    """Return what there is to say of one loop of a profile."""
    item = LoopReport(loop, step_time_summary(loop))
    return _of(profile, profile.processes[loop.process], item, last)


def _of(profile: Profile, process: Process, item: LoopReport, last: int) -> LoopStepReport:
    loop = item.loop
    remembered = recent_window(loop, profile.loops)
    causes = Causes(profile, loop)
    warm_up = warm_up_steps(remembered)
    is_warm = remembered.numbers >= (0 if isinstance(warm_up, Missing) else warm_up)
    return LoopStepReport(
        process=process,
        item=item,
        remembered=remembered,
        steps=step_times.step_distribution(loop, remembered),
        gaps=step_times.gap_distribution(loop, remembered),
        slow_steps=outliers.step_outliers(remembered, causes),
        long_gaps=outliers.gap_outliers(remembered, causes),
        trend=trend(remembered.numbers, remembered.step_ns, remembered.counts & is_warm),
        warm_up_steps=warm_up,
        recent=recent_steps(loop, last=last),
    )


def steps_document(found: StepsReport) -> Document:
    """Return the document: times in ns, ratios of 1; tfprobe.steps/1 when published."""
    return {
        "schema": SCHEMA,
        "run": run_report.run_document(found.run),
        "processes": [_life_document(process, each) for process, each in found.lives],
        "work": [_loop_document(loop) for loop in found.loops],
        **_compilations_document(found.compilations),
        **_breaks_document(found.graph_breaks),
    }


def _compilations_document(found: tuple[tuple[Process, Compilation], ...]) -> Document:
    """Return what was compiled; nothing where it is not recorded, as in jobs of TensorFlow."""
    if not found:
        return {}
    return {
        "compilations": [
            {"host": process.host, "pid": process.pid or None, **compilation_document(compilation)}
            for process, compilation in found
        ]
    }


def _breaks_document(found: tuple[tuple[Process, GraphBreak], ...]) -> Document:
    """Return where graphs broke; nothing where none did."""
    if not found:
        return {}
    return {
        "graph_breaks": [
            {"host": process.host, "pid": process.pid or None, **graph_break_document(each)}
            for process, each in found
        ]
    }


def graph_break_document(found: GraphBreak) -> Document:
    """Return one break: in which step, of which function, where and why."""
    return {
        "work": found.loop,
        "step": found.step,
        "name": found.name,
        "unix_ns": found.unix_ns or None,
        "reason": found.reason,
        "skipped": found.is_skipped,
        "file": found.file or None,
        "line": found.line or None,
    }


def compilation_document(compilation: Compilation) -> Document:
    """Return one compilation: in which step, the time of its stages, and why it was needed."""
    changes = compilation.changes
    return {
        "work": compilation.loop,
        "step": compilation.step,
        "name": compilation.name,
        "compiler": compilation.compiler,
        "start_unix_ns": compilation.start_ns,
        "duration_ns": compilation.duration_ns,
        "trace_ns": compilation.trace_ns,
        "lower_ns": compilation.lower_ns,
        "backend_ns": compilation.backend_ns,
        "cached": compilation.is_cached,
        "first": compilation.is_first,
        "why": reason_of(compilation),
        "changes": None if changes is None else [asdict(change) for change in changes],
        "changes_left_out": compilation.changes_left_out,
        "file": compilation.file or None,
        "line": compilation.line or None,
    }


def _loop_document(each: LoopStepReport) -> Document:
    warm_up = each.warm_up_steps
    return {
        "host": each.process.host,
        "pid": each.process.pid or None,
        "program": each.process.shown_program,
        **run_report.loop_document(each.item),
        "remembered": {"first_step": each.remembered.first_step, "steps": len(each.remembered)},
        "step_times": distribution_document(each.steps),
        "gap_times": distribution_document(each.gaps),
        "slow_steps": outliers_document(each.slow_steps),
        "long_gaps": outliers_document(each.long_gaps),
        "trend": trend_document(each.trend),
        "warm_up_steps": None if isinstance(warm_up, Missing) else warm_up,
        "recent": [_step_document(step) for step in each.recent],
    }


def distribution_document(found: Distribution | Missing) -> Document:
    """Return how long steps or gaps took, with the buckets that have any."""
    if isinstance(found, Missing):
        return {"missing": found.reason}
    names = [f"p{round(quantile * 100)}_ns" for quantile in QUANTILES]
    quantiles = zip(names, found.quantiles_ns, strict=True)
    return {
        "count": found.count,
        "left_out": found.left_out,
        "total_ns": found.total_ns,
        "mean_ns": found.mean_ns,
        "min_ns": found.min_ns,
        **dict(quantiles),
        "max_ns": found.max_ns,
        "error_ratio": found.error_ratio,
        "histogram_ns": [[bar.low_ns, bar.high_ns, bar.count] for bar in found.bars],
    }


def outliers_document(found: Outliers | Missing) -> Document:
    """Return what stands out: in all, by cause, and the longest."""
    if isinstance(found, Missing):
        return {"missing": found.reason}
    causes = outliers.by_cause(found)
    return {
        "looked_at": found.looked_at,
        "count": len(found.found),
        "usual_ns": found.usual_ns,
        "excess_ns": found.excess_ns,
        "share_ratio": found.share_ratio,
        "causes": [
            {**_cause_document(cause), "count": count, "excess_ns": excess_ns}
            for cause, count, excess_ns in causes
        ],
        "periods": [
            {
                "every": period.every,
                "first": period.first,
                "times": period.times,
                "turns": period.turns,
            }
            for period in found.periods
        ],
        "longest": [outlier_document(outlier) for outlier in found.found[:SHOWN_OUTLIERS]],
    }


def outlier_document(each: Outlier) -> Document:
    """Return one step, or the gap before it."""
    return {
        "step": each.step,
        "start_ns": each.start_ns,
        "duration_ns": each.duration_ns,
        "excess_ns": each.excess_ns,
        "z": each.z,
        **_cause_document(each.cause),
    }


def _cause_document(cause: Cause | Missing) -> Document:
    if isinstance(cause, Missing):
        return {"cause": None, "cause_name": None}
    return {"cause": cause.kind, "cause_name": cause.name}


def trend_document(found: Trend | Missing) -> Document:
    """Return how step times change over the run."""
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "first_step": found.first_step,
        "last_step": found.last_step,
        "change_ratio": found.change_ratio,
        "low_ratio": found.low_ratio,
        "high_ratio": found.high_ratio,
        "p_value": found.p_value,
        "is_significant": found.is_significant,
    }


def _life_document(process: Process, found: Life | Missing) -> Document:
    return {
        "host": process.host,
        "pid": process.pid or None,
        "folder": process.folder,
        "program": process.shown_program,
        **life_document(found),
    }


def life_document(found: Life | Missing) -> Document:
    """Return the phases of a process, and each stretch of one with its start and end in Unix ns."""
    if isinstance(found, Missing):
        return {"missing": found.reason}
    return {
        "start_unix_ns": found.start_ns,
        "wall_ns": found.wall_ns,
        "knows_import": found.knows_import,
        "phases_ns": {phase: found.total_ns(phase) for phase in PHASES},
        "segments": [
            [segment.phase, segment.start_ns, segment.end_ns] for segment in found.segments
        ],
    }


def _step_document(step: RecentStep) -> Document:
    return {
        "step": step.step,
        "start_ns": step.start_ns,
        "duration_ns": step.duration_ns,
        "gap_ns": step.gap_ns,
        "sampled": step.sampled,
        "raised": step.raised,
    }
