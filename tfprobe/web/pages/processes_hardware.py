"""What the processes and accelerators of a run used over time: the lower half of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.statistics import SampleCurve, sampling_gaps
from tfprobe.analysis.system.hardware import (
    NO_ACCELERATOR,
    DeviceHardware,
    Hardware,
    ProcessHardware,
    hardware,
)
from tfprobe.errors import Missing, UsageError
from tfprobe.report.documents.document import Document, known, reasons
from tfprobe.web.opened import Reading
from tfprobe.web.pages.loop_choice import process_document
from tfprobe.web.params import Params

# Lines in one chart.
MOST_LINES = 12
MOST_DEVICES = 512
MOST_HOSTS = 1_000


def used_of(run: Reading) -> Hardware:
    """Return what all processes used."""
    return run.made("hardware", lambda: hardware(run.profile))


def hardware_document(run: Reading, question: Params, first_ns: int) -> Document:
    """Return what processes and accelerators used over time, of one host or of all.

    Times count from `first_ns`.
    """
    hosts = sorted({process.host for process in run.profile.processes})
    host = question.text("host")
    if host and host not in hosts:
        raise UsageError("There is no process on a host of that name.")
    return run.made(("hardware of", host), lambda: _hardware_of(run, host, hosts, first_ns))


def _hardware_of(run: Reading, host: str, hosts: Sequence[str], first_ns: int) -> Document:
    used = used_of(run)
    sampled = [process for process in used.processes if not isinstance(process, Missing)]
    mine = [
        sampled_process for sampled_process in sampled if host in ("", sampled_process.process.host)
    ]
    every = () if isinstance(used.devices, Missing) else used.devices
    devices = [each for each in every if host in ("", each.host)]
    missing = {}
    if not mine:
        reasons = [process.reason for process in used.processes if isinstance(process, Missing)]
        missing["processes"] = reasons[0] if reasons else "no process of it was sampled"
    if not devices:
        missing["devices"] = NO_ACCELERATOR.reason
    return {
        "host": host,
        "hosts": list(hosts[:MOST_HOSTS]),
        "processes": {
            name: _lines(
                [
                    (_of_process(sampled_process), getattr(sampled_process, name))
                    for sampled_process in mine
                ],
                first_ns,
                most=True,
            )
            for name in ("cores_busy", "resident_bytes")
        },
        "devices": [_device(device) for device in devices[:MOST_DEVICES]],
        "more_devices": max(len(devices) - MOST_DEVICES, 0),
        "accelerators": {
            name: _lines(
                [(_of_device(device), getattr(device, name)) for device in devices],
                first_ns,
                most=name != "utilization_ratio",
            )
            for name in ("utilization_ratio", "memory_used_bytes", "power_watts")
        },
        "samples": sum(sampled_process.samples for sampled_process in mine),
        "missing": missing,
    }


def _of_process(each: ProcessHardware) -> Document:
    return process_document(each.process)


def _of_device(each: DeviceHardware) -> Document:
    return {"host": each.host, "index": each.index, "name": each.name}


def _lines(
    curves: Sequence[tuple[Document, SampleCurve | Missing]], first_ns: int, *, most: bool
) -> Document:
    """Return curves on one axis of time: of too many those with the largest means, or smallest."""
    known_curves = [(about, curve) for about, curve in curves if isinstance(curve, SampleCurve)]
    by_mean = sorted(
        range(len(known_curves)), key=lambda at: known_curves[at][1].mean, reverse=most
    )
    chosen = [known_curves[at] for at in sorted(by_mean[:MOST_LINES])]
    at_ns, values = on_one_axis([_measured(curve) for _, curve in chosen])
    return {
        "at_ns": [moment_ns - first_ns for moment_ns in at_ns],
        "lines": [
            {**about, **_about(curve), "values": line}
            for (about, curve), line in zip(chosen, values, strict=True)
        ],
        "more": len(known_curves) - len(chosen),
        "missing": next((curve.reason for _, curve in curves if isinstance(curve, Missing)), None)
        if not chosen
        else None,
    }


def _measured(curve: SampleCurve) -> Measured:
    return Measured(
        np.array([point.at_ns for point in curve.points], dtype=np.int64),
        np.array([point.value for point in curve.points], dtype=np.float64),
    )


def _about(curve: SampleCurve) -> Document:
    return {"mean": curve.mean, "p95": curve.p95, "max": curve.max, "last": curve.last}


def _device(device: DeviceHardware) -> Document:
    """Return an accelerator: of what changes the mean over time, and its limits."""
    curves = {
        name: getattr(device, name)
        for name in (
            "utilization_ratio",
            "memory_used_bytes",
            "power_watts",
            "temperature_celsius",
            "sm_clock_hz",
            "pcie_sent_bytes_per_s",
            "pcie_received_bytes_per_s",
        )
    }
    limits = {
        name: getattr(device, name)
        for name in ("memory_total_bytes", "power_limit_watts", "max_sm_clock_hz")
    }
    return {
        **_of_device(device),
        "samples": device.samples,
        **{
            name: _about(curve) if isinstance(curve, SampleCurve) else None
            for name, curve in curves.items()
        },
        **{name: known(limit) for name, limit in limits.items()},
        "throttle_reasons": [
            {"reason": reason.reason, "ratio": reason.ratio} for reason in device.throttle_reasons
        ],
        "missing": reasons({**curves, **limits}),
    }


Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

# A chart in a row of charts has about so many pixels.
MOST_MOMENTS = 600


@dataclass(frozen=True, slots=True)
class Measured:
    """Amounts at some moments, in order."""

    at_ns: Int64s
    values: Float64s


def on_one_axis(
    every: Sequence[Measured], *, most: int = MOST_MOMENTS
) -> tuple[list[int], list[list[float | None]]]:
    """Return moments, and the amounts of each at them; None before its first, after its last, and
    in its silences.

    A moment is the end of a part of the time; the amount is the most in that part, and where
    nothing was measured in it the one before. Nothing of one alone is joined if it needs not be.
    """
    measured = [series for series in every if len(series.at_ns)]
    if not measured:
        return [], [[] for _ in every]
    whole: Int64s = np.unique(np.concatenate([series.at_ns for series in measured]))
    parts = min(len(whole), max(most, 1))
    if len(measured) > 1:
        # As many as the one with most: moments of others are hardly ever the very same.
        parts = min(parts, max(len(series.at_ns) for series in measured))
    if parts == len(whole):
        ends = np.unique(np.concatenate([whole, *(_silent_ns(series) for series in measured)]))
    else:
        ends = whole[0] + (np.arange(1, parts + 1) * (whole[-1] - whole[0])) // parts
    return ends.tolist(), [_at(series, ends) for series in every]


def _at(each: Measured, ends: Int64s) -> list[float | None]:
    if not len(each.at_ns):
        return [None] * len(ends)
    part = np.searchsorted(ends, each.at_ns, side="left")
    most = np.full(len(ends), -np.inf)
    np.maximum.at(most, part, each.values)
    here = np.flatnonzero(np.isfinite(most))
    before = here[np.maximum(np.searchsorted(here, np.arange(len(ends)), side="right") - 1, 0)]
    filled = most[before].tolist()
    known = np.zeros(len(ends), dtype=np.bool_)
    known[here[0] : here[-1] + 1] = True
    last, begin_ns = sampling_gaps(each.at_ns)
    for begin, end in zip(begin_ns.tolist(), each.at_ns[last + 1].tolist(), strict=True):
        known &= (ends < begin) | (ends >= end) | np.isfinite(most)
    return [value if is_known else None for value, is_known in zip(filled, known, strict=True)]


def _silent_ns(each: Measured) -> Int64s:
    """Return a moment in each silence, so that a chart has a place to break its line."""
    return sampling_gaps(each.at_ns)[1]
