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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprobe.analysis.steps.step_summary import summarise
from tfprobe.errors import Missing
from tfprobe.export.app_stats import app_stats
from tfprobe.export.step_timeline import step_timeline
from tfprobe.export.tier_tables import cell, tables
from tfprobe.formats.schema import message_class
from tfprobe.profile.profile import Process, Profile, Work
from tfprobe.profile.records import DeviceStats, NodeStats
from tfprobe.report.documents import tiers as all_tiers
from tfprobe.report.documents.tiers import Tiers

_MISSING = {
    "output": "a profiler window does not tell what ops returned",
    "total_bytes": "a profiler window and a software trace do not tell what ops requested",
}
_LONGEST_NODES = 20
# More is cut from a name of a file.
_LONGEST_NAME = 80

# Any: a JSON object.
_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A sampled step of a work; `devices` is what each device did in it.

    `text` is the StepStats that TensorFlow wrote, as text; None where it wrote none.
    """

    process: Process
    work: Work
    step: int
    devices: tuple[DeviceStats, ...]
    text: str | None


def models_profiler(
    profile: Profile, works: Sequence[tuple[Process, Work]], steps: Iterable[RecordedStep]
) -> Iterator[tuple[str, str]]:
    """Yield the files of the directory, by path and text, those of each step as it comes.

    `works` are those to write, `steps` their recorded ones; the tiers are those of the profile.
    """
    models = _models(works)
    op_stats: _Object = {}
    for each in steps:
        model = models[each.process.index, each.work.index]
        name = f"{_file_name(model)}_step_{each.step}"
        yield f"timeline/{name}", step_timeline(each.devices)
        yield f"step_stats/{name}", each.text or _step_stats_text(each.devices)
        of_step = op_stats.setdefault(model, {}).setdefault(str(each.step), {})
        place = of_step.setdefault(_place(each.process, works), {})
        for device, label in zip(each.devices, _device_labels(each.devices), strict=True):
            _add_nodes(place.setdefault(label, {}), device.nodes)
    tiers = all_tiers.gather(profile)
    yield (
        "summary.json",
        json.dumps(_summary(profile, works, models, op_stats, tiers), indent=2) + "\n",
    )
    yield "summary.md", _page(tiers, works, models, op_stats)


def _summary(
    profile: Profile,
    works: Sequence[tuple[Process, Work]],
    models: Mapping[tuple[int, int], str],
    op_stats: _Object,
    tiers: Tiers,
) -> _Object:
    several = len(profile.processes) > 1

    def place(process: Process) -> str:
        return f"{process.host} {process.number}" if several else ""

    activities, unplaced = app_stats(profile, works, models, place)
    return {
        "app_stats": activities,
        "op_stats": op_stats,
        "runtime_stats": all_tiers.runtime_document(tiers.runtime),
        "hardware_stats": all_tiers.hardware_document(tiers.hardware),
        "tfprobe": {
            "run": profile.run.id,
            "units": {"duration": "us"},
            "missing": _MISSING,
            "application": all_tiers.application_document(tiers.application),
            "activities_without_step": unplaced,
        },
    }


def _models(works: Sequence[tuple[Process, Work]]) -> dict[tuple[int, int], str]:
    """Return what each work is called: its name, and as much more as tells it from the others."""
    spelled = [
        (work.name, f"{work.name} {work.kind}", f"{work.name} {work.kind} {process.host}",
         f"{work.name} {work.kind} {process.host} {process.number}",
         f"{work.name} {work.kind} {process.host} {process.number} {work.index}")
        for process, work in works
    ]  # fmt: skip
    names = {}
    for (process, work), spellings in zip(works, spelled, strict=True):
        alone = (
            text
            for length, text in enumerate(spellings)
            if [each[length] for each in spelled].count(text) == 1
        )
        names[process.index, work.index] = next(alone, spellings[-1])
    return names


def _place(process: Process, works: Sequence[tuple[Process, Work]]) -> str:
    """Return the host, with the process where several recorded ones share it."""
    sharing = {each.number for each, _ in works if each.host == process.host}
    return process.host if len(sharing) < 2 else f"{process.host}:{process.number}"


def _device_labels(devices: Sequence[DeviceStats]) -> list[str]:
    """Return `CPU`, or `CPU:0` and the like where several would be called that."""
    # ".../device:GPU:1/stream:all" is GPU, or GPU:1, with its stream behind it.
    longest = [re.sub(r".*/(?:device:)?", "", _root(each.device)) for each in devices]
    shortest = [re.sub(r"^host:|:\d+$", "", label) for label in longest]
    ambiguous = {
        short
        for short in shortest
        if len({each for each, other in zip(longest, shortest, strict=True) if other == short}) > 1
    }
    return [
        (label if short in ambiguous else short) + each.device[len(_root(each.device)) :]
        for each, label, short in zip(devices, longest, shortest, strict=True)
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
                str(each.slot): {
                    "shape": None if isinstance(each.shape, Missing) else list(each.shape),
                    "type": each.dtype.removeprefix("DT_").capitalize(),
                }
                for each in node.outputs
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
    works: Sequence[tuple[Process, Work]],
    models: Mapping[tuple[int, int], str],
    op_stats: _Object,
) -> str:
    lines = [f"# {tiers.run.id}", "", "## Steps", "", "| model | kind | steps | mean ms | p95 ms |",
             "|---|---|---:|---:|---:|"]  # fmt: skip
    for process, work in works:
        times = summarise(work)
        if isinstance(times, Missing):
            continue
        name = cell(models[process.index, work.index])
        mean, p95 = times.mean_ns / 1e6, times.p95_ns / 1e6
        lines.append(f"| {name} | {work.kind} | {work.count} | {mean:.3f} | {p95:.3f} |")
    lines += tables(tiers)
    for model, by_step in op_stats.items():
        lines += ["", f"## {cell(model)}: longest nodes", ""]
        lines += [f"Mean of {len(by_step)} sampled steps.", ""]
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
    """Say whether another device tells the same, as `stream:all` does of each stream."""
    return device.startswith("host:") or ("/stream:" in device and "/stream:all" not in device)


def _file_name(model: str) -> str:
    return re.sub(r"[^\w.\-]+", "_", model)[:_LONGEST_NAME] or "model"
