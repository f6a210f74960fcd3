"""The overview of a run, as far as it needs no capture: steps over time, processes, machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfprobe.analysis.core import no_data_reasons
from tfprobe.analysis.steps.recent_steps import Overhead, last_end_ns, steps_per_s
from tfprobe.analysis.steps.step_series import series, usual_most_ns
from tfprobe.analysis.steps.step_times import StepTimeSummary
from tfprobe.analysis.system import endings, hardware
from tfprobe.analysis.system.hardware import DeviceHardware, ProcessHardware
from tfprobe.errors import Missing
from tfprobe.profile.profile import JAX_KINDS, TORCH_KINDS, Loop, Profile, Run
from tfprobe.report.documents import run_report
from tfprobe.report.documents.document import Document, known
from tfprobe.report.documents.run_report import ProcessReport
from tfprobe.report.documents.step_report import LoopStepReport, trend_document
from tfprobe.web.opened import OpenRun, Reading
from tfprobe.web.pages.loop_choice import loops_document
from tfprobe.web.pages.steps import loop_steps
from tfprobe.web.params import Params
from tfprobe.web.step_columns import (
    bands_of,
    marked_steps,
    series_document,
    shown_outliers,
)
from tfprobe.web.values import facts

_MOST_PROCESSES = 64
_MOST_DEVICES = 16
_MARKED_OUTLIERS = 20
_NAME_CHARACTERS = 200


def document(run: OpenRun, question: Params) -> Document:  # noqa: ARG001 - all have these
    """Return it. What takes captures is in the documents `shares` and `findings`."""
    return run.early.made("overview", lambda: _document(run.early))


def _document(run: Reading) -> Document:
    profile = run.profile
    processes = [run_report.process_report(process, profile) for process in profile.processes]
    steps = [loop.count for loop in profile.loops]
    return {
        "run": {
            "id": profile.run.id,
            "directory": profile.run.directory,
            "state": profile.run.state,
            "state_words": endings.run_state(profile.run, profile.processes),
            "is_live": profile.run.is_live,
            "command": command_line(profile.run),
            "started": known(profile.run.started),
        },
        "steps": sum(steps),
        "sampled": sum(loop.sampled for loop in profile.loops),
        "works": loops_document(run),
        "main": _main(run),
        "processes": [_process(process) for process in processes[:_MOST_PROCESSES]],
        "processes_in_all": len(processes),
        "overhead": _overhead(processes),
        "hardware": _hardware(profile),
        "silences": list(no_data_reasons.explain(profile)),
    }


def _main(run: Reading) -> Document:
    """Return the steps of the work with most time."""
    loops = [loop for loop in run.loops() if loop.executed]
    if not loops:
        return {"missing": "no step has been recorded"}
    loop = loops[0]
    found = loop_steps(run, loop)
    return {
        "work": run.place(loop),
        "kind": loop.kind,
        "name": loop.name[:_NAME_CHARACTERS],
        **_framework(loop),
        **_times(loop, found),
        "series": series_document(series(found.remembered)),
        "is_whole": found.remembered.is_whole,
        "bands": bands_of(run.profile, found),
        "slow_steps": shown_outliers(found.slow_steps, most=_MARKED_OUTLIERS),
        "long_gaps": shown_outliers(found.long_gaps, most=_MARKED_OUTLIERS),
        "trend": trend_document(found.trend),
        "usual_most_ns": usual_most_ns(found.remembered),
        "sampled_steps": marked_steps(found.remembered, found.remembered.sampled),
    }


def _framework(loop: Loop) -> Document:
    """Return what runs the steps, where they say so: a program may import several frameworks."""
    if loop.kind in TORCH_KINDS:
        return {"framework": "torch"}
    is_jax = loop.queue is not None or loop.kind in JAX_KINDS
    return {"framework": "jax"} if is_jax else {}


def _times(loop: Loop, found: LoopStepReport) -> Document:
    times = found.item.times
    end_ns = last_end_ns([loop])
    rate = Missing("no step was completed") if end_ns is None else steps_per_s(loop, end_ns)
    return facts(
        {
            "count": loop.count,
            "raised": loop.raised,
            "sampled": loop.sampled,
            "steps_per_execution": loop.steps_per_execution,
            "steps_per_s": rate,
            **_quantiles(times),
        }
    )


def _quantiles(times: StepTimeSummary | Missing) -> dict[str, float | Missing]:
    if isinstance(times, Missing):
        return dict.fromkeys(("mean_ns", "p50_ns", "p95_ns", "max_ns", "total_ns"), times)
    return {
        "mean_ns": times.mean_ns,
        "p50_ns": times.p50_ns,
        "p95_ns": times.p95_ns,
        "max_ns": times.max_ns,
        "total_ns": times.total_ns,
        "error_ratio": times.error_ratio,
    }


def _process(item: ProcessReport) -> Document:
    process, cost = item.process, item.overhead
    devices = process.devices
    return {
        "host": process.host,
        "label": process.label,
        "rank": process.rank,
        "role": process.role,
        "state": process.state,
        "state_words": endings.process_state(process),
        "steps": sum(loop.loop.count for loop in item.loops),
        "steps_ns": sum(loop.loop.times.sum_ns for loop in item.loops),
        "captures": process.captures,
        **facts(
            {
                "python": process.python,
                "tensorflow": process.tensorflow,
                **({} if process.jax is None else {"jax": process.jax}),
                **({} if process.torch is None else {"torch": process.torch}),
                "devices": devices if isinstance(devices, Missing) else list(devices),
                "overhead_ratio": cost if isinstance(cost, Missing) else cost.fraction_ratio,
            }
        ),
    }


def _overhead(processes: Sequence[ProcessReport]) -> Document:
    """Return what recording cost the process that it cost most."""
    costs = [process.overhead for process in processes]
    known_costs = [cost for cost in costs if isinstance(cost, Overhead)]
    if not known_costs:
        reasons = [cost.reason for cost in costs if isinstance(cost, Missing)]
        return {"missing": next(iter(reasons), "no process was recorded")}
    most = max(known_costs, key=lambda cost: cost.fraction_ratio)
    return run_report.overhead_document(most)


def _hardware(profile: Profile) -> Document:
    report = hardware.hardware(profile)
    sampled = [process for process in report.processes if isinstance(process, ProcessHardware)]
    reasons = [process.reason for process in report.processes if isinstance(process, Missing)]
    devices = report.devices
    shown = () if isinstance(devices, Missing) else devices[:_MOST_DEVICES]
    return {
        "processes": [_machine(machine) for machine in sampled[:_MOST_PROCESSES]],
        "processes_missing": None if sampled else next(iter(reasons), "no process was recorded"),
        "devices": [_device(each) for each in shown],
        "devices_missing": devices.reason if isinstance(devices, Missing) else None,
    }


def _machine(each: ProcessHardware) -> Document:
    process = each.process
    return {"host": process.host, "label": process.label, "rank": process.rank} | facts(
        {
            "cores_busy": each.cores_busy,
            "usable_cpus": each.usable_cpus,
            "utilization_ratio": each.utilization_ratio,
            "throttled_ratio": each.throttled_ratio,
            "resident_bytes": each.resident_bytes,
            "peak_resident_bytes": each.peak_resident_bytes,
            "machine_memory_bytes": each.machine_memory_bytes,
        }
    )


def _device(each: DeviceHardware) -> Document:
    return {"host": each.host, "index": each.index, "name": each.name[:_NAME_CHARACTERS]} | facts(
        {
            "utilization_ratio": each.utilization_ratio,
            "memory_used_bytes": each.memory_used_bytes,
            "memory_total_bytes": each.memory_total_bytes,
        }
    )


# What fits into a title; commands of launchers may carry whole configurations.
_COMMAND_CHARACTERS = 2_000


def header_document(run: OpenRun, question: Params) -> dict[str, Any]:  # noqa: ARG001 - all have these
    """Return it, made of what needs no capture. Any: see docs/web.md."""
    recorded_run = run.early.profile.run
    return {
        "id": recorded_run.id,
        "command": command_line(recorded_run),
        "state": recorded_run.state,
        "is_live": recorded_run.is_live,
        "started": None if isinstance(recorded_run.started, Missing) else recorded_run.started,
        "processes": len(run.early.profile.processes),
        "works": loops_document(run.early),
    }


def command_line(run: Run) -> str | None:
    """Return what was run, as far as a page shows it; None if it is not known."""
    if isinstance(run.command, Missing):
        return None
    return " ".join(run.command)[:_COMMAND_CHARACTERS]
