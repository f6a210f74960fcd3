"""Write the directory of the model suites' own profiler, from what was recorded.

    timeline/MODEL_step_N      a chrome trace, as TensorFlow's client timeline draws it
    step_stats/MODEL_step_N    the step's StepStats as text
    summary.json               durations in µs, by step and by node
    summary.md                 the same for people

Of the keys of summary.json `app_stats` and `op_stats` are that profiler's; `runtime_stats` and
`hardware_stats` are its other two layers, of which it had no data. What a recording does not hold
is null; `tfprobe.missing` says why. A node that ran several times in a step is added up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfprobe.analysis.steps.step_times import recent_steps, step_time_summary
from tfprobe.errors import Missing
from tfprobe.export.step_timeline import step_timeline
from tfprobe.export.tier_tables import cell, tables
from tfprobe.formats.schema import message_class
from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.profile.records import DeviceStats, NodeStats
from tfprobe.report.documents import tiers as all_tiers
from tfprobe.report.documents.document import published
from tfprobe.report.documents.tiers import Tiers

_MISSING = {
    "output": "a profiler window does not record what ops returned",
    "total_bytes": "a profiler window and a software trace do not record what ops requested",
}
_LONGEST_NODES = 20
# Longer file names are cut.
_LONGEST_NAME = 80

# Any: a JSON object.
_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExportedStep:
    """A traced step of a loop; `devices` is what each device did in it.

    `text` is the StepStats that TensorFlow wrote, as text; None where it wrote none.
    """

    process: Process
    loop: Loop
    step: int
    devices: tuple[DeviceStats, ...]
    text: str | None


def models_profiler(
    profile: Profile, loops: Sequence[tuple[Process, Loop]], steps: Iterable[ExportedStep]
) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file of the directory, step by step.

    `works` are those to write, `steps` their recorded ones; the tiers are those of the profile.
    """
    models = _models(loops)
    op_stats: _Object = {}
    for step in steps:
        model = models[step.process.index, step.loop.index]
        name = f"{_file_name(model)}_step_{step.step}"
        yield f"timeline/{name}", step_timeline(step.devices)
        yield f"step_stats/{name}", step.text or _step_stats_text(step.devices)
        of_step = op_stats.setdefault(model, {}).setdefault(str(step.step), {})
        place = of_step.setdefault(_place(step.process, loops), {})
        for device, label in zip(step.devices, _device_labels(step.devices), strict=True):
            _add_nodes(place.setdefault(label, {}), device.nodes)
    tiers = all_tiers.gather_tiers(profile)
    yield (
        "summary.json",
        json.dumps(_summary(profile, loops, models, op_stats, tiers), indent=2) + "\n",
    )
    yield "summary.md", _page(tiers, loops, models, op_stats)


def _summary(
    profile: Profile,
    loops: Sequence[tuple[Process, Loop]],
    models: Mapping[tuple[int, int], str],
    op_stats: _Object,
    tiers: Tiers,
) -> _Object:
    several = len(profile.processes) > 1

    def place(process: Process) -> str:
        return f"{process.host} {process.number}" if several else ""

    activities, unplaced = app_stats(profile, loops, models, place)
    shown = published(all_tiers.tiers_document(tiers))
    return {
        "app_stats": activities,
        "op_stats": op_stats,
        "runtime_stats": shown["runtime"],
        "hardware_stats": shown["hardware"],
        "tfprobe": {
            "run": profile.run.id,
            "units": {"duration": "us"},
            "missing": _MISSING,
            "application": shown["application"],
            "activities_without_step": unplaced,
        },
    }


def _models(loops: Sequence[tuple[Process, Loop]]) -> dict[tuple[int, int], str]:
    """Return the name of each loop, extended until it is unique."""
    spelled = [
        (loop.name, f"{loop.name} {loop.kind}", f"{loop.name} {loop.kind} {process.host}",
         f"{loop.name} {loop.kind} {process.host} {process.number}",
         f"{loop.name} {loop.kind} {process.host} {process.number} {loop.index}")
        for process, loop in loops
    ]  # fmt: skip
    names = {}
    for (process, loop), spellings in zip(loops, spelled, strict=True):
        alone = (
            text
            for length, text in enumerate(spellings)
            if [each[length] for each in spelled].count(text) == 1
        )
        names[process.index, loop.index] = next(alone, spellings[-1])
    return names


def _place(process: Process, loops: Sequence[tuple[Process, Loop]]) -> str:
    """Return the host, with the process if several recorded processes share it."""
    sharing = {each.number for each, _ in loops if each.host == process.host}
    return process.host if len(sharing) < 2 else f"{process.host}:{process.number}"


def _device_labels(devices: Sequence[DeviceStats]) -> list[str]:
    """Return `CPU`, or `CPU:0` if there are several devices of the type."""
    # ".../device:GPU:1/stream:all" is GPU, or GPU:1, followed by its stream.
    longest = [re.sub(r".*/(?:device:)?", "", _root(device.device)) for device in devices]
    shortest = [re.sub(r"^host:|:\d+$", "", label) for label in longest]
    ambiguous = {
        short
        for short in shortest
        if len({each for each, other in zip(longest, shortest, strict=True) if other == short}) > 1
    }
    return [
        (label if short in ambiguous else short) + device.device[len(_root(device.device)) :]
        for device, label, short in zip(devices, longest, shortest, strict=True)
    ]


def _root(device: str) -> str:
    """Return a device without its stream."""
    return re.split(r"/(?:stream:|memcpy|sync)", device)[0]


def _add_nodes(found: _Object, nodes: Iterable[NodeStats]) -> None:
    for node in nodes:
        entry = found.setdefault(
            node.name.partition(":")[0], {"duration": 0, "output": None, "total_bytes": None}
        )
        entry["duration"] += node.duration_us
        if node.outputs:
            entry["output"] = {
                str(output.slot): {
                    "shape": None if isinstance(output.shape, Missing) else list(output.shape),
                    "type": output.dtype.removeprefix("DT_").capitalize(),
                }
                for output in node.outputs
            }
        if not isinstance(node.total_bytes, Missing):
            entry["total_bytes"] = (entry["total_bytes"] or 0) + node.total_bytes


def _step_stats_text(devices: Iterable[DeviceStats]) -> str:
    """Return the text form of a StepStats with the times of a step that was recorded without."""
    message = message_class("tfprobe.step_stats.StepStats")()
    for device in devices:
        written = message.dev_stats.add(device=device.device)
        for node in device.nodes:
            written.node_stats.add(
                node_name=node.name,
                timeline_label=node.label,
                all_start_micros=node.start_us,
                op_end_rel_micros=node.duration_us,
                all_end_rel_micros=node.duration_us,
            )
    return str(message)


def _page(
    tiers: Tiers,
    loops: Sequence[tuple[Process, Loop]],
    models: Mapping[tuple[int, int], str],
    op_stats: _Object,
) -> str:
    lines = [f"# {tiers.run.id}", "", "## Steps", "", "| model | kind | steps | mean ms | p95 ms |",
             "|---|---|---:|---:|---:|"]  # fmt: skip
    for process, loop in loops:
        times = step_time_summary(loop)
        if isinstance(times, Missing):
            continue
        name = cell(models[process.index, loop.index])
        mean, p95 = times.mean_ns / 1e6, times.p95_ns / 1e6
        lines.append(f"| {name} | {loop.kind} | {loop.count} | {mean:.3f} | {p95:.3f} |")
    lines += tables(tiers)
    for model, by_step in op_stats.items():
        lines += ["", f"## {cell(model)}: longest nodes", ""]
        lines += [f"Mean of {len(by_step)} traced steps.", ""]
        lines += ["| node | device | µs |", "|---|---|---:|"]
        lines += [
            f"| {cell(node)} | {cell(device)} | {total / len(by_step):.1f} |"
            for (node, device), total in _longest(by_step)
        ]
    return "\n".join(lines) + "\n"


def _longest(by_step: _Object) -> list[tuple[tuple[str, str], int]]:
    totals: dict[tuple[str, str], int] = {}
    for places in by_step.values():
        for place, devices in places.items():
            for device, nodes in devices.items():
                if _repeats(device):
                    continue
                for node, entry in nodes.items():
                    key = node, f"{place} {device}"
                    totals[key] = totals.get(key, 0) + entry["duration"]
    return sorted(totals.items(), key=lambda each: -each[1])[:_LONGEST_NODES]


def _repeats(device: str) -> bool:
    """Say whether another device has the same rows, as `stream:all` has those of each stream."""
    return device.startswith("host:") or ("/stream:" in device and "/stream:all" not in device)


def _file_name(model: str) -> str:
    return re.sub(r"[^\w.\-]+", "_", model)[:_LONGEST_NAME] or "model"


_NS_PER_US = 1000

# Any: a JSON object.
Loops = Sequence[tuple[Process, Loop]]
Named = Callable[[Process], str]


def app_stats(
    profile: Profile, loops: Loops, models: Mapping[tuple[int, int], str], named: Named
) -> tuple[_Object, int]:
    """Return activities by step, durations in µs, and the number of intervals without a known step.

    `models` is what each loop is called, `named` tells processes apart.
    """
    found: dict[int, _Object] = {}
    for process, loop in loops:
        _add_steps(found, loop, models[process.index, loop.index])
    steps = _step_names(found)
    unplaced = 0
    for activity in profile.activities:
        process = profile.processes[activity.process]
        at = _step_at(profile.loops, process, activity)
        if at is None:
            unplaced += 1
            continue
        _add(found.setdefault(at, {}), activity, _key(activity, named(process), steps))
    return {str(step): found[step] for step in sorted(found)}, unplaced


def _add_steps(found: dict[int, _Object], loop: Loop, model: str) -> None:
    for step in recent_steps(loop):
        found.setdefault(step.step, {})[f"{loop.kind} {model}"] = {
            "duration": step.duration_ns / _NS_PER_US,
            "meta": f"step of {loop.kind} {loop.name}, thread {loop.thread}",
        }


def _step_names(found: Mapping[int, _Object]) -> frozenset[str]:
    return frozenset(name for of_step in found.values() for name in of_step)


def _key(activity: Activity, where: str, steps: frozenset[str]) -> str:
    """Return the name of an activity, which no step has."""
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


def _step_at(loops: Sequence[Loop], process: Process, activity: Activity) -> int | None:
    """Return the step that contains an activity; None if that step is no longer in the ring."""
    offset_ns = process.unix_minus_monotonic_ns
    if isinstance(offset_ns, Missing):
        return None
    mine = [loop for loop in loops if loop.process == process.index and loop.executed]
    here = [loop for loop in mine if loop.thread == activity.thread] or mine
    if any(_is_forgotten(loop, activity.start_ns, offset_ns) for loop in here):
        return None
    following = list(_following(here, activity.start_ns, offset_ns))
    if following:
        return min(following)[1]
    last = [
        (int(loop.recent.end_ns[-1]), loop.recent.first_step + len(loop.recent.end_ns) - 1)
        for loop in here
        if len(loop.recent.end_ns)
    ]
    return max(last)[1] if last else 0


def _is_forgotten(loop: Loop, at_ns: int, offset_ns: int) -> bool:
    """Say whether a loop had steps at that time that are no longer in the ring."""
    recent = loop.recent
    if not recent.first_step or not len(recent.start_ns):
        return False
    return loop.first_seen_ns <= at_ns < int(recent.start_ns[0]) + offset_ns


def _following(loops: Sequence[Loop], at_ns: int, offset_ns: int) -> Iterator[tuple[int, int]]:
    """Yield start and number of each loop's current step, or else of its next one."""
    for loop in loops:
        recent = loop.recent
        at = int(np.searchsorted(recent.end_ns, at_ns - offset_ns, side="right"))
        if recent.first_step and at_ns < loop.first_seen_ns:
            yield loop.first_seen_ns, 0
        elif at < len(recent.end_ns):
            yield int(recent.start_ns[at]) + offset_ns, recent.first_step + at
