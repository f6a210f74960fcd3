"""Gather copies between host and device from the transfers view."""

from __future__ import annotations

from collections.abc import Iterable

from tfprobe.analysis.core.copies import Memory, Move
from tfprobe.analysis.core.op_attribution import Origins
from tfprobe.analysis.transfers.bus_transfers import Flow, Transfers, transfers
from tfprobe.errors import Missing
from tfprobe.findings.signals import Copies
from tfprobe.profile.graph import SampledWork
from tfprobe.profile.profile import Capture, Profile

_DIRECTIONS = {
    Move.HOST_TO_DEVICE: "to the device",
    Move.DEVICE_TO_HOST: "to the host",
}


def copies(
    profile: Profile, captures: tuple[Capture, ...], found: Iterable[SampledWork]
) -> tuple[Copies, ...] | Missing:
    """Return the copies of a mean step, by direction; those within devices are left out."""
    moved = transfers(profile.only(captures), Origins(found))
    if isinstance(moved, Missing):
        return moved
    return tuple(_copies(flow, moved) for flow in moved.flows if flow.move in _DIRECTIONS)


def _copies(flow: Flow, moved: Transfers) -> Copies:
    steps = max(moved.steps, 1)
    # Devices work beside each other: what they copy takes the time of one of them.
    devices = max(len(moved.accelerators), 1)
    pageable = dict(flow.by_memory).get(Memory.PAGEABLE)
    dearest = next((each.label for each in moved.causes if each.move is flow.move), "")
    return Copies(
        direction=_DIRECTIONS[Move(flow.move)],
        count=flow.amount.count / steps,
        bytes=flow.amount.bytes / steps,
        busy_ns=flow.busy.busy_ns / steps / devices,
        exposed_ns=flow.busy.exposed_ns / steps / devices,
        pageable_count=(pageable.count if pageable else 0) / steps,
        pageable_ns=(pageable.time_ns if pageable else 0) / steps / devices,
        node=dearest,
    )
