"""Gather what accelerators ran and what was copied to and from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from tfprobe.analysis.breakdown.gap_breakdown import gaps_before_steps
from tfprobe.analysis.breakdown.step_parts import Part, is_part, part_names, parts_of
from tfprobe.analysis.core.copies import CopyMemory, Move
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.transfers.bus_transfers import TransferFlow, Transfers, transfers
from tfprobe.errors import Missing
from tfprobe.findings.gather.ops import busy_ns
from tfprobe.findings.signals import CopySignal, Layout, Precision, Syncs
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Capture, Loop, Profile
from tfprobe.profile.tables import Flags, Int32s, having

# Ops with a faster form in 16 bits: XProf's list of those that tensor cores can run.
_PRODUCTS = re.compile(
    r"_?(Fused|Cudnn)?(Conv[23]D|DepthwiseConv2dNative|MatMul|BatchMatMul|RNN|Einsum|XlaDot)"
)
_CONVOLUTION = re.compile(r"_?(Fused)?(Conv[23]D|DepthwiseConv2dNative)")
# TensorFlow's own transposes, and those that cuDNN puts around a convolution.
_TRANSPOSE = re.compile(
    r"Transpose|SwapDimension|n[hc]?hw[c]?_?to_?n[hc]?hw[c]?|tensorTransform", re.I
)
_NO_KERNEL = Missing("no kernel of an accelerator was recorded")


def precision(rows: Executions, captures: int) -> Precision | Missing:
    """Return what was computed in a mean step, in 16 bits and in 32.

    Kernels whose names do not tell count as wide where their op has a form in 16 bits.
    """
    on_device = rows.place == Place.ACCELERATOR
    if not on_device.any():
        return _NO_KERNEL
    part = parts_of(rows, part_names(rows))
    narrow = on_device & is_part(part, Part.DEVICE_COMPUTE_16BIT)
    eligible = on_device & ~narrow & _of_types(rows, _PRODUCTS)
    compute_ns = _busy_ns(rows, on_device & ~is_part(part, Part.COLLECTIVES), captures)
    narrow_ns = _busy_ns(rows, narrow, captures)
    return Precision(
        narrow_ns=narrow_ns,
        wide_ns=max(compute_ns - narrow_ns, 0.0),
        eligible_ns=_busy_ns(rows, eligible, captures),
        node=_longest(rows, eligible),
    )


def layout(rows: Executions, captures: int, found: TracedLoop | None) -> Layout | Missing:
    """Return convolutions by data format, and transposes, of a mean step.

    The format is what the graph says; without a graph, what the kernel's name says.
    """
    on_device = rows.place == Place.ACCELERATOR
    if not on_device.any():
        return _NO_KERNEL
    convolutions = on_device & _of_types(rows, _CONVOLUTION)
    last = convolutions & _is_last(rows, found)
    turned = on_device & ~convolutions
    turned &= _of_types(rows, _TRANSPOSE) | _matching(rows, rows.detail, _TRANSPOSE)
    return Layout(
        nhwc_ns=_busy_ns(rows, last, captures),
        nchw_ns=_busy_ns(rows, convolutions & ~last, captures),
        transpose_ns=_busy_ns(rows, turned, captures),
        node=_longest(rows, turned),
    )


def _is_last(rows: Executions, found: TracedLoop | None) -> Flags:
    """Say which convolutions have their channels last."""
    if found is None:
        return _matching(rows, rows.detail, re.compile(r"nhwc", re.IGNORECASE))
    origins = Origins((found,))
    formats = np.zeros(len(rows.strings.values), dtype=np.bool_)
    for at in np.unique(rows.name).tolist():
        node = origins.node(rows.strings[at])
        formats[at] = node is not None and node.attributes.get("data_format") == "NHWC"
    chosen: Flags = formats[rows.name]
    return chosen


def _of_types(rows: Executions, pattern: re.Pattern[str]) -> Flags:
    return _matching(rows, rows.op_type, pattern, whole=True)


def _matching(
    rows: Executions, column: Int32s, pattern: re.Pattern[str], *, whole: bool = False
) -> Flags:
    """Say which rows have a text in a column that matches: from its start, or anywhere."""
    test = pattern.match if whole else pattern.search
    return having(rows.strings, column, test)


def _busy_ns(rows: Executions, chosen: Flags, captures: int) -> float:
    """Return how long any of these rows ran in a mean capture."""
    start_ns = rows.start_ns[chosen]
    count = int(rows.capture.max(initial=-1)) + 1
    group = rows.capture[chosen].astype(np.int64)
    busy = busy_ns(group, count, start_ns, start_ns + rows.duration_ns[chosen])
    return float(busy.sum()) / max(captures, 1)


def _longest(rows: Executions, chosen: Flags) -> str:
    """Return the node whose one execution took longest."""
    at = np.flatnonzero(chosen)
    if not len(at):
        return ""
    return rows.strings[int(rows.name[at[int(np.argmax(rows.duration_ns[at]))]])]


_DIRECTIONS = {
    Move.HOST_TO_DEVICE: "to the device",
    Move.DEVICE_TO_HOST: "to the host",
}


def copies(
    profile: Profile, captures: tuple[Capture, ...], found: Iterable[TracedLoop]
) -> tuple[CopySignal, ...] | Missing:
    """Return the copies of a mean step, by direction; those within devices are left out."""
    moved = transfers(profile.only(captures), Origins(found))
    if isinstance(moved, Missing):
        return moved
    return tuple(_copies(flow, moved) for flow in moved.flows if flow.move in _DIRECTIONS)


def _copies(flow: TransferFlow, moved: Transfers) -> CopySignal:
    steps = max(moved.steps, 1)
    # Devices work beside each other: what they copy takes the time of one of them.
    devices = max(len(moved.accelerators), 1)
    pageable = dict(flow.by_memory).get(CopyMemory.PAGEABLE)
    dearest = next((cause.label for cause in moved.causes if cause.move is flow.move), "")
    return CopySignal(
        direction=_DIRECTIONS[Move(flow.move)],
        count=flow.amount.count / steps,
        bytes=flow.amount.bytes / steps,
        busy_ns=flow.busy.busy_ns / steps / devices,
        exposed_ns=flow.busy.exposed_ns / steps / devices,
        pageable_count=(pageable.count if pageable else 0) / steps,
        pageable_ns=(pageable.time_ns if pageable else 0) / steps / devices,
        node=dearest,
    )


# The class of eager tensors lives in one of these.
_FILE = re.compile(r"tensorflow(_core)?/python/(framework/(ops|tensor)|eager/context)\.py$")
_NAME = re.compile(r"^(_?numpy|_numpy_internal|__(float|int|bool|array|index|complex|long)__)$")
_IN_C = re.compile(r"EagerTensor\._?numpy|_numpy_internal")
_LIBRARY = re.compile(r"/(site-packages|dist-packages|lib/python\d)|^<frozen|^$")


def syncs(profile: Profile, loop: Loop) -> Syncs | Missing:
    """Return the reads of tensors in the watched gaps of a loop."""
    gaps = [
        gap
        for gap in gaps_before_steps(profile)
        if gap.process == loop.process and gap.loop == loop.index
    ]
    if not gaps:
        return Missing("the time between its steps was not watched")
    sources: Counter[tuple[str, str]] = Counter()
    total_ns, with_one = 0, 0
    for gap in gaps:
        reads = _reads(gap)
        with_one += bool(reads)
        total_ns += sum(_whole_ns(gap, at) for at in reads)
        for at in reads:
            sources[gap.calls[at].function, _source(gap.calls, at)] += gap.calls[at].count
    function, source = sources.most_common(1)[0][0] if sources else ("", "")
    return Syncs(
        gaps=len(gaps),
        ratio=with_one / len(gaps),
        calls=sum(sources.values()) / len(gaps),
        ns=total_ns / len(gaps),
        function=function,
        source=source,
    )


def _reads(gap: Gap) -> list[int]:
    """Return the outermost calls that read a tensor."""
    found: set[int] = set()
    inside: set[int] = set()
    for at, call in enumerate(gap.calls):
        if call.parent is not None and call.parent in found | inside:
            inside.add(at)
        elif _is_read(call):
            found.add(at)
    return sorted(found)


def _is_read(call: Call) -> bool:
    if not call.file:
        return bool(_IN_C.search(call.function))
    return bool(_FILE.search(call.file) and _NAME.match(call.function))


def _whole_ns(gap: Gap, at: int) -> int:
    """Return the time of a call with all below it, without the cost of watching them."""
    below = {at}
    for position, call in enumerate(gap.calls):
        if call.parent in below:
            below.add(position)
    calls = sum(call.count for call in gap.calls) or 1
    cost_ns = gap.cost_ns * sum(gap.calls[each].count for each in below) // calls
    return max(sum(gap.calls[each].self_ns for each in below) - cost_ns, 0)


def _source(calls: tuple[Call, ...], at: int) -> str:
    """Return the line of the job's own code from which a call was reached."""
    line, parent = calls[at].called_line, calls[at].parent
    while parent is not None:
        caller = calls[parent]
        if not _LIBRARY.search(caller.file):
            return f"{caller.file}:{line}"
        line, parent = caller.called_line, caller.parent
    return ""
