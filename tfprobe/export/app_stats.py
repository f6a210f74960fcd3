"""Key what processes did by step, as the application layer of the models profiler has it.

A step of a work lies under its own number. Another activity lies under the step of its thread (of
its process, where the thread has none) during which it began, else under the next one; after the
last step under that. Intervals of one name under one step are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfprobe.analysis.steps.step_summary import recent_steps
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import Process, Profile, Work

_NS_PER_US = 1000

# Any: a JSON object.
_Object = dict[str, Any]
Works = Sequence[tuple[Process, Work]]
Named = Callable[[Process], str]


def app_stats(
    profile: Profile, works: Works, models: Mapping[tuple[int, int], str], named: Named
) -> tuple[_Object, int]:
    """Return the activities by step, durations in µs, and how many intervals no step is known for.

    `models` is what each work is called, `named` tells processes apart.
    """
    found: dict[int, _Object] = {}
    for process, work in works:
        _add_steps(found, work, models[process.index, work.index])
    steps = _step_names(found)
    unplaced = 0
    for each in profile.activities:
        process = profile.processes[each.process]
        at = _step_at(profile.works, process, each)
        if at is None:
            unplaced += 1
            continue
        _add(found.setdefault(at, {}), each, _key(each, named(process), steps))
    return {str(step): found[step] for step in sorted(found)}, unplaced


def _add_steps(found: dict[int, _Object], work: Work, model: str) -> None:
    for step in recent_steps(work):
        found.setdefault(step.step, {})[f"{work.kind} {model}"] = {
            "duration": step.duration_ns / _NS_PER_US,
            "meta": f"step of {work.kind} {work.name}, thread {work.thread}",
        }


def _step_names(found: Mapping[int, _Object]) -> frozenset[str]:
    return frozenset(name for of_step in found.values() for name in of_step)


def _key(activity: Activity, where: str, steps: frozenset[str]) -> str:
    """Return the name of an activity, which is none that steps have."""
    name = f"{activity.kind} {activity.name}"
    if where:
        name += f" {where}"
    return f"{name} (activity)" if name in steps else name


def _add(of_step: _Object, activity: Activity, key: str) -> None:
    entry = of_step.setdefault(key, {"duration": 0.0, "meta": ""})
    entry["duration"] += (activity.end_ns - activity.start_ns) / _NS_PER_US
    count = 1 + int(entry["meta"].partition(" ")[0] or 0)
    times = "time" if count == 1 else "times"
    entry["meta"] = f"{count} {times}, {activity.kind}, thread {activity.thread}"


def _step_at(works: Sequence[Work], process: Process, activity: Activity) -> int | None:
    """Return the step that an activity lies under; None where that is no longer remembered."""
    offset_ns = process.unix_minus_monotonic_ns
    if isinstance(offset_ns, Missing):
        return None
    mine = [work for work in works if work.process == process.index and work.executed]
    here = [work for work in mine if work.thread == activity.thread] or mine
    if any(_is_forgotten(work, activity.start_ns, offset_ns) for work in here):
        return None
    following = list(_following(here, activity.start_ns, offset_ns))
    if following:
        return min(following)[1]
    last = [
        (int(work.recent.end_ns[-1]), work.recent.first_step + len(work.recent.end_ns) - 1)
        for work in here
        if len(work.recent.end_ns)
    ]
    return max(last)[1] if last else 0


def _is_forgotten(work: Work, at_ns: int, offset_ns: int) -> bool:
    """Say whether a work took steps at that moment which are no longer remembered."""
    recent = work.recent
    if not recent.first_step or not len(recent.start_ns):
        return False
    return work.first_seen_ns <= at_ns < int(recent.start_ns[0]) + offset_ns


def _following(works: Sequence[Work], at_ns: int, offset_ns: int) -> Iterator[tuple[int, int]]:
    """Yield by work the start and the number of the step that is going on, or else of the next."""
    for work in works:
        recent = work.recent
        at = int(np.searchsorted(recent.end_ns, at_ns - offset_ns, side="right"))
        if recent.first_step and at_ns < work.first_seen_ns:
            yield work.first_seen_ns, 0
        elif at < len(recent.end_ns):
            yield int(recent.start_ns[at]) + offset_ns, recent.first_step + at
