"""Gather the four tiers of a run (application, framework, runtime, hardware) as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfprobe.analysis.core.statistics import SampleCurve
from tfprobe.analysis.ops.op_stats import OpTable, op_table
from tfprobe.analysis.system import application
from tfprobe.analysis.system import hardware as machines
from tfprobe.analysis.system import runtime as driver
from tfprobe.analysis.system.application import ActivityUse, ProcessActivities
from tfprobe.analysis.system.hardware import DeviceHardware, Hardware, ProcessHardware
from tfprobe.analysis.system.runtime import KernelLaunches, Runtime, RuntimeCalls
from tfprobe.analysis.system.thread_times import ProcessThreads, Stand, ThreadGroup
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process, Profile, Run
from tfprobe.report.documents import run_report
from tfprobe.report.documents.document import Document, with_reasons

SCHEMA = "tfprobe.tiers/1"


@dataclass(frozen=True, slots=True)
class Tiers:
    """A run in four tiers, from what the program does down to what it runs on."""

    run: Run
    application: tuple[ProcessActivities, ...]
    framework: OpTable | Missing
    runtime: Runtime | Missing
    hardware: Hardware

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is known of any tier."""
        tiers = [self.framework, self.runtime, self.hardware.devices, *self.hardware.processes]
        return all(isinstance(tier, Missing) for tier in tiers) and not any(
            process.activities for process in self.application
        )


def gather_tiers(profile: Profile) -> Tiers:
    """Return the tiers of a profile."""
    return Tiers(
        run=profile.run,
        application=application.activities(profile),
        framework=op_table(profile),
        runtime=driver.runtime(profile),
        hardware=machines.hardware(profile),
    )


def tiers_document(tiers: Tiers) -> Document:
    """Return the document, tfprobe.tiers/1 when published: times in ns, ratios 0..1.

    What is not known is null; `missing` says why.
    """
    return {
        "schema": SCHEMA,
        "run": run_report.run_document(tiers.run),
        "application": _application_document(tiers.application),
        "framework": framework_document(tiers.framework),
        "runtime": _runtime_document(tiers.runtime),
        "hardware": _hardware_document(tiers.hardware),
    }


def _application_document(processes: tuple[ProcessActivities, ...]) -> list[Document]:
    """Return what each process did, most exclusive time first."""
    return [
        _place(process.process)
        | _facts(
            {
                "wall_ns": process.wall_ns,
                "elsewhere_ns": process.elsewhere_ns,
                "activities": [_activity_document(use) for use in process.activities],
            }
        )
        for process in processes
    ]


def _runtime_document(item: Runtime | Missing) -> Document:
    """Return the driver calls and the launches, or why there are none."""
    if isinstance(item, Missing):
        return {"missing": item.reason}
    launches = item.launches
    return {
        "steps": item.steps,
        "calls": [calls_document(call) for call in item.calls],
        "launches": {"missing": launches.reason}
        if isinstance(launches, Missing)
        else _launches_document(launches),
    }


def _hardware_document(item: Hardware) -> Document:
    """Return what each process used of its machine, and each accelerator."""
    devices = item.devices
    return {
        "processes": [
            {"missing": process.reason}
            if isinstance(process, Missing)
            else _process_document(process)
            for process in item.processes
        ],
        "devices": {"missing": devices.reason}
        if isinstance(devices, Missing)
        else [_device_document(device) for device in devices],
    }


def _activity_document(use: ActivityUse) -> Document:
    return _facts(
        {
            "kind": use.kind,
            "name": use.name,
            "is_step": use.is_step,
            "count": use.count,
            "total_ns": use.total_ns,
            "exclusive_ns": use.exclusive_ns,
            "is_estimate": use.is_estimate,
            "share_ratio": use.share_ratio,
        }
    )


def framework_document(table: OpTable | Missing) -> Document:
    """Return the types of op with the time of each."""
    if isinstance(table, Missing):
        return {"missing": table.reason}
    whole_ns = table.time_ns or 1
    return {
        "steps": table.captures,
        "types": [
            {
                "type": op.type,
                "count": op.runs,
                "total_ns": op.time_ns,
                "accelerator_ns": op.accelerator_ns,
                "cpu_ns": op.cpu_ns,
                "share_ratio": op.time_ns / whole_ns,
            }
            for op in table.types
        ],
    }


def calls_document(calls: RuntimeCalls) -> Document:
    """Return one kind of call of the driver."""
    return {
        "kind": calls.kind.name.lower(),
        "name": calls.name,
        "count": calls.count,
        "count_per_step": calls.count_per_step,
        "total_ns": calls.total_ns,
        "mean_ns": calls.mean_ns,
        "max_ns": calls.max_ns,
    }


def _launches_document(item: KernelLaunches) -> Document:
    return _facts(
        {
            "count": item.count,
            "count_per_step": item.per_step,
            "total_ns": item.total_ns,
            "matched": item.matched,
            "mean_delay_ns": item.mean_delay_ns,
            "p50_delay_ns": item.p50_delay_ns,
            "p95_delay_ns": item.p95_delay_ns,
            "max_delay_ns": item.max_delay_ns,
            "short": item.short,
            "short_ratio": item.short_ratio,
            "short_kernels": [
                {
                    "name": kernel.name,
                    "count": kernel.count,
                    "mean_kernel_ns": kernel.mean_kernel_ns,
                    "mean_call_ns": kernel.mean_call_ns,
                }
                for kernel in item.short_kernels
            ],
        }
    )


def _process_document(item: ProcessHardware) -> Document:
    return _place(item.process) | _facts(
        {
            "samples": item.samples,
            "watched_ns": item.watched_ns,
            "steps": item.steps,
            "cores_busy": item.cores_busy,
            "system_ratio": item.system_ratio,
            "usable_cpus": item.usable_cpus,
            "utilization_ratio": item.utilization_ratio,
            "cpus": item.cpus,
            "cpu_limit": item.cpu_limit,
            "throttled_ratio": item.throttled_ratio,
            "threads": item.threads,
            "intra_op_threads": item.intra_op_threads,
            "inter_op_threads": item.inter_op_threads,
            "load_1min": item.load_1min,
            "voluntary_switches_per_s": item.voluntary_switches_per_s,
            "involuntary_switches_per_s": item.involuntary_switches_per_s,
            "voluntary_switches_per_step": item.voluntary_switches_per_step,
            "involuntary_switches_per_step": item.involuntary_switches_per_step,
            "resident_bytes": item.resident_bytes,
            "peak_resident_bytes": item.peak_resident_bytes,
            "memory_limit_bytes": item.memory_limit_bytes,
            "machine_memory_bytes": item.machine_memory_bytes,
            "read_bytes_per_s": item.read_bytes_per_s,
            "written_bytes_per_s": item.written_bytes_per_s,
            "major_faults_per_s": item.major_faults_per_s,
            "run_delay_ratio": item.run_delay_ratio,
            "gc_ratio": item.gc_ratio,
            "machine_cores_busy": item.machine_cores_busy,
            "machine_cores_io_wait": item.machine_cores_io_wait,
            "machine_cores_stolen": item.machine_cores_stolen,
            "by_thread": item.by_thread
            if isinstance(item.by_thread, Missing)
            else _threads_document(item.by_thread),
        }
    )


def _threads_document(item: ProcessThreads) -> Document:
    return _facts(
        {
            "samples": item.samples,
            "watched_ns": item.watched_ns,
            "cpu_ns": item.cpu_ns,
            "groups": [_group_document(group) for group in item.groups],
            "ended_ns": item.ended_ns,
            "guests": [_stand_document(guest) for guest in item.guests],
            "unmapped": item.unmapped,
        }
    )


def _group_document(item: ThreadGroup) -> Document:
    return _facts(
        {
            "name": item.name,
            "is_python": item.is_python,
            "threads": item.threads,
            "runs_steps": item.runs_steps,
            "cpu_ns": item.cpu_ns,
            "cores_busy": item.cores,
            "share_ratio": item.ratio,
            "stands": [_stand_document(stand) for stand in item.stands],
        }
    )


def _stand_document(item: Stand) -> Document:
    return {
        "file": item.file,
        "line": item.line,
        "function": item.function,
        "samples": item.samples,
        "in_python": item.in_python,
    }


def _device_document(item: DeviceHardware) -> Document:
    return _facts(
        {
            "host": item.host,
            "index": item.index,
            "name": item.name,
            "samples": item.samples,
            "utilization_ratio": item.utilization_ratio,
            "memory_used_bytes": item.memory_used_bytes,
            "memory_total_bytes": item.memory_total_bytes,
            "power_watts": item.power_watts,
            "power_limit_watts": item.power_limit_watts,
            "sm_clock_hz": item.sm_clock_hz,
            "max_sm_clock_hz": item.max_sm_clock_hz,
            "temperature_celsius": item.temperature_celsius,
            "pcie_sent_bytes_per_s": item.pcie_sent_bytes_per_s,
            "pcie_received_bytes_per_s": item.pcie_received_bytes_per_s,
            "throttled_ratio_by_reason": {
                reason.reason: reason.ratio for reason in item.throttle_reasons
            },
        }
    )


def _place(process: Process) -> Document:
    return {"host": process.host, "pid": process.pid or None, "rank": process.rank}


def _facts(values: Mapping[str, object]) -> Document:
    return with_reasons(
        {
            name: curve_document(value) if isinstance(value, SampleCurve) else value
            for name, value in values.items()
        }
    )


def curve_document(curve: SampleCurve) -> Document:
    """Return an amount over time."""
    return {
        "mean": curve.mean,
        "p95": curve.p95,
        "min": curve.min,
        "max": curve.max,
        "last": curve.last,
        "at_unix_ns": [point.at_ns for point in curve.points],
        # Six digits are more than any sample is good for, and halve the document.
        "values": [float(f"{point.value:.6g}") for point in curve.points],
    }
