"""The processes of a run: what each did and used, when it lived, and who is late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfprobe.analysis.core.statistics import SampleCurve
from tfprobe.analysis.jobs import rank_steps
from tfprobe.analysis.jobs.rank_steps import MEASURES, Lane, Measure, Ranks
from tfprobe.analysis.steps import process_timeline
from tfprobe.analysis.steps.process_timeline import ProcessTimeline, TimelineBar
from tfprobe.analysis.steps.recent_steps import Overhead, recording_overhead
from tfprobe.analysis.steps.step_times import step_time_summary
from tfprobe.analysis.system.hardware import ProcessHardware
from tfprobe.errors import Missing
from tfprobe.profile.profile import LIVE_STATES, Loop, Process, Profile
from tfprobe.report.documents.document import Document, known, with_reasons
from tfprobe.web.opened import OpenRun, Reading
from tfprobe.web.pages.loop_choice import loops_alike, process_document
from tfprobe.web.pages.processes_hardware import hardware_document, used_of
from tfprobe.web.params import Params

MOST_PROCESSES = 2_000
MOST_LIVES = 256
MOST_GROUPS = 50
# Places behind the point of a cell: a hundredth of a hundredth is no colour.
_CELL_DIGITS = 4


def document(run: OpenRun, question: Params) -> Document:
    """Return `processes`, their `lives`, the `hardware` of all or of `host=`, and the `ranks` of
    the loop of `work=` compared by `measure=`: what a step takes, or the time before it.
    """
    measure = _measure(question)
    early = run.early
    group = _group(early, question)
    start_ns, _ = early.made("lives", lambda: _lives(early.profile))
    return {
        **early.made("processes", lambda: _whole(early)),
        "hardware": hardware_document(early, question, start_ns or 0),
        "groups": early.made("groups", lambda: _groups(early.profile)),
        "ranks": early.made(
            ("ranks", _key(group), _group_of(early.profile, group), measure),
            lambda: _ranks(early.profile, group, measure),
        ),
    }


def _measure(question: Params) -> Measure:
    word = question.one_of("measure", MEASURES, default="step")
    return next(measure for measure in MEASURES if measure == word)


def _group(run: Reading, question: Params) -> tuple[Loop, ...]:
    """Return the requested loop in all processes, else that with most time in several."""
    if not run.profile.loops:
        return ()
    if question.text("work"):
        return loops_alike(run, run.loop(question))
    return run.made("dearest group", lambda: _main_group(run.profile))


def _key(group: Sequence[Loop]) -> tuple[str, str]:
    return (group[0].kind, group[0].name) if group else ("", "")


def _group_of(profile: Profile, loops: Sequence[Loop]) -> int:
    return profile.processes[loops[0].process].group if loops else 0


def _by_name(profile: Profile) -> Mapping[tuple[str, str, int], list[Loop]]:
    """Return each loop in the processes that do it together."""
    found: dict[tuple[str, str, int], list[Loop]] = {}
    for loop in profile.loops:
        group = profile.processes[loop.process].group
        found.setdefault((loop.kind, loop.name, group), []).append(loop)
    return found


def _main_group(profile: Profile) -> tuple[Loop, ...]:
    groups: list[list[Loop]] = list(_by_name(profile).values())
    longest = max(groups, key=_weight)
    return tuple(longest)


def _weight(loops: Sequence[Loop]) -> tuple[bool, int]:
    several = len({loop.process for loop in loops}) > 1
    return several, sum(loop.times.sum_ns for loop in loops)


def _groups(profile: Profile) -> list[Document]:
    """Return the loops that several processes have, those with most time first."""
    place = {(loop.process, loop.index): at for at, loop in enumerate(profile.loops)}
    several = [group for group in _by_name(profile).values() if _weight(group)[0]]
    return [
        {
            "work": place[loops[0].process, loops[0].index],
            "kind": loops[0].kind,
            "name": loops[0].name,
            "processes": len({loop.process for loop in loops}),
            "total_ns": _weight(loops)[1],
        }
        for loops in sorted(several, key=_weight, reverse=True)[:MOST_GROUPS]
    ]


def _whole(run: Reading) -> Document:
    """Return what does not depend on the question."""
    profile, used = run.profile, used_of(run)
    by_process: dict[int, list[tuple[int, Loop]]] = {}
    for place, loop in enumerate(profile.loops):
        by_process.setdefault(loop.process, []).append((place, loop))
    start_ns, living = run.made("lives", lambda: _lives(profile))
    rows = [
        _process(profile, at, by_process.get(at, []), used.processes[at])
        for at in range(min(len(profile.processes), MOST_PROCESSES))
    ]
    return {
        "start_unix_ns": start_ns,
        "processes": rows,
        "more_processes": max(len(profile.processes) - MOST_PROCESSES, 0),
        "lives": living[:MOST_LIVES],
        "more_lives": max(len(living) - MOST_LIVES, 0),
    }


def _process(
    profile: Profile,
    at: int,
    loops: Sequence[tuple[int, Loop]],
    used: ProcessHardware | Missing,
) -> Document:
    process = profile.processes[at]
    own = [loop for _, loop in loops]
    cost = recording_overhead(process, own)
    place, main = max(loops, key=lambda each: each[1].times.sum_ns, default=(None, None))
    times = Missing("no step was completed") if main is None else step_time_summary(main)
    rate = Missing("no step was completed") if main is None else _steps_per_s(main)
    machine = _machine(used)
    facts: dict[str, Any] = {
        "steps_per_s": rate,
        "p50_ns": times if isinstance(times, Missing) else times.p50_ns,
        "p95_ns": times if isinstance(times, Missing) else times.p95_ns,
        "overhead_ratio": cost.fraction_ratio if isinstance(cost, Overhead) else cost,
        **machine,
    }
    return {
        **process_document(process),
        "folder": process.folder,
        "state": process.state,
        "is_live": process.state in LIVE_STATES,
        "tensorflow": known(process.tensorflow),
        "python": known(process.python),
        "work": place,
        "work_title": None if main is None else f"{main.kind} {main.name}",
        "works": len(loops),
        "steps": sum(loop.count for loop in own),
        "is_estimate": not isinstance(times, Missing) and times.error_ratio > 0,
        "captures": process.captures,
        **with_reasons(facts),
    }


def _machine(used: ProcessHardware | Missing) -> dict[str, Any]:
    if isinstance(used, Missing):
        names = ("cores_busy", "usable_cpus", "throttled_ratio", "peak_bytes", "memory_limit_bytes")
        return dict.fromkeys(names, used)
    busy = used.cores_busy
    return {
        "cores_busy": busy.mean if isinstance(busy, SampleCurve) else busy,
        "usable_cpus": used.usable_cpus,
        "throttled_ratio": used.throttled_ratio,
        "peak_bytes": used.peak_resident_bytes,
        "memory_limit_bytes": _least(used.memory_limit_bytes, used.machine_memory_bytes),
    }


def _least(*limits: int | Missing) -> int | Missing:
    known_limits = [limit for limit in limits if not isinstance(limit, Missing) and limit > 0]
    return (
        min(known_limits)
        if known_limits
        else Missing("neither the cgroup nor the machine reports it")
    )


def _steps_per_s(loop: Loop) -> float | Missing:
    """Return the mean rate from the first step to the last, pauses included."""
    whole_ns = loop.times.sum_ns + loop.gaps.sum_ns
    if not loop.count or not whole_ns:
        return Missing("no step was completed")
    return loop.count * 1e9 / whole_ns


def _ranks(profile: Profile, group: Sequence[Loop], measure: Measure) -> Document:
    # Of several threads of one process that run it, the busiest stands for it.
    of_process: dict[int, Loop] = {}
    for loop in sorted(group, key=lambda each: each.times.sum_ns):
        of_process[loop.process] = loop
    kind, name = _key(group)
    # Hosts stand in the order of their names, by which node10 comes before node2.
    ordered = sorted(of_process.values(), key=lambda each: _order(profile.processes[each.process]))
    head = {"kind": kind, "name": name, "measure": measure, "measures": list(MEASURES)}
    comparison = rank_steps.compare_steps(ordered, measure)
    if isinstance(comparison, Missing):
        return {**head, "lanes": [], "left_out": 0, "missing": comparison.reason}
    place = {(loop.process, loop.index): at for at, loop in enumerate(profile.loops)}
    return {
        **head,
        **_ranks_document(comparison),
        "lanes": [
            {
                **process_document(profile.processes[lane.process]),
                "work": place[lane.process, of_process[lane.process].index],
                **_lane(lane),
            }
            for lane in comparison.lanes
        ],
        "missing": None,
    }


def _order(process: Process) -> tuple[bool, int, int]:
    return process.rank is None, process.rank or 0, process.index


def _ranks_document(found: Ranks) -> Document:
    return {
        "first_step": found.first_step,
        "last_step": found.last_step,
        "steps_per_column": found.steps_per_column,
        "median_ns": found.median_ns,
        "left_out": found.left_out,
        "spread": {
            "step": list(found.spread.step),
            "least_ns": list(found.spread.least_ns),
            "median_ns": list(found.spread.median_ns),
            "most_ns": list(found.spread.most_ns),
            "slowest": list(found.spread.slowest),
        },
    }


def _lane(lane: Lane) -> Document:
    return {
        "middle_ratio": lane.middle_ratio,
        "slowest_ratio": lane.slowest_ratio,
        "compared": lane.compared,
        "cells": [None if cell is None else round(cell, _CELL_DIGITS) for cell in lane.cells],
    }


def _lives(profile: Profile) -> tuple[int | None, list[Document]]:
    timelines = process_timeline.process_timelines(profile)
    if not timelines:
        return None, []
    start_ns = min(life.start_ns for life in timelines)
    return start_ns, [_life(life, start_ns) for life in timelines]


def _life(life: ProcessTimeline, first_ns: int) -> Document:
    return {
        **process_document(life.process),
        "state": life.process.state,
        "start_ns": life.start_ns - first_ns,
        "end_ns": life.end_ns - first_ns,
        "bars": [_bar(bar, first_ns) for bar in life.bars],
    }


def _bar(bar: TimelineBar, first_ns: int) -> Document:
    return {
        "kind": bar.kind,
        "name": bar.name,
        "start_ns": bar.start_ns - first_ns,
        "end_ns": bar.end_ns - first_ns,
        "count": bar.count,
        "is_estimate": bar.is_estimate,
    }
