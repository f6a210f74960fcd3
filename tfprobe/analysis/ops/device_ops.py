"""Say how an accelerator computes in traced steps: in how many bits, in which data format."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.breakdown.step_parts import Part, is_part, part_names, parts_of
from tfprobe.analysis.core.intervals import busy_ns_by_group
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.tables import Flags, Int32s, having

# Ops with a faster 16-bit form: XProf's list of those that tensor cores can run.
_PRODUCTS = re.compile(
    r"_?(Fused|Cudnn)?(Conv[23]D|DepthwiseConv2dNative|MatMul|BatchMatMul|RNN|Einsum|XlaDot)"
)
_CONVOLUTION = re.compile(r"_?(Fused)?(Conv[23]D|DepthwiseConv2dNative)")
# TensorFlow's own transposes, and those that cuDNN puts around a convolution.
_TRANSPOSE = re.compile(
    r"Transpose|SwapDimension|n[hc]?hw[c]?_?to_?n[hc]?hw[c]?|tensorTransform", re.I
)
_NO_KERNEL = Missing("no kernel of an accelerator was recorded")


@dataclass(frozen=True, slots=True)
class DataLayout:
    """Time of convolutions on the accelerator by data format, and of transposes, per step."""

    nhwc_ns: float
    nchw_ns: float
    transpose_ns: float
    node: str = ""


@dataclass(frozen=True, slots=True)
class Precision:
    """How long the accelerator computed in 16 bits (narrow) and in more (wide), per step.

    `eligible_ns` is the time of wide ops with a faster 16-bit form: matrix products, convolutions.
    """

    narrow_ns: float
    wide_ns: float
    eligible_ns: float
    node: str = ""


def precision(rows: Executions, captures: int) -> Precision | Missing:
    """Return the precision in which the mean step computed.

    A kernel whose name does not say counts as wide.
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


def data_layout(rows: Executions, captures: int, found: TracedLoop | None) -> DataLayout | Missing:
    """Return the data formats of the mean step.

    The graph has the format of a convolution; without a graph, the name of its kernel may.
    """
    on_device = rows.place == Place.ACCELERATOR
    if not on_device.any():
        return _NO_KERNEL
    convolutions = on_device & _of_types(rows, _CONVOLUTION)
    last = convolutions & _is_last(rows, found)
    turned = on_device & ~convolutions
    turned &= _of_types(rows, _TRANSPOSE) | _matching(rows, rows.detail, _TRANSPOSE)
    return DataLayout(
        nhwc_ns=_busy_ns(rows, last, captures),
        nchw_ns=_busy_ns(rows, convolutions & ~last, captures),
        transpose_ns=_busy_ns(rows, turned, captures),
        node=_longest(rows, turned),
    )


def _is_last(rows: Executions, found: TracedLoop | None) -> Flags:
    """Say which convolutions have channels last."""
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
    """Say which rows match in a column: from the start of the text, or anywhere."""
    test = pattern.match if whole else pattern.search
    return having(rows.strings, column, test)


def _busy_ns(rows: Executions, chosen: Flags, captures: int) -> float:
    """Return how long any of these rows ran in the mean capture."""
    start_ns = rows.start_ns[chosen]
    count = int(rows.capture.max(initial=-1)) + 1
    group = rows.capture[chosen].astype(np.int64)
    busy = busy_ns_by_group(group, count, start_ns, start_ns + rows.duration_ns[chosen])
    return float(busy.sum()) / max(captures, 1)


def _longest(rows: Executions, chosen: Flags) -> str:
    """Return the node with the longest execution."""
    at = np.flatnonzero(chosen)
    if not len(at):
        return ""
    return rows.strings[int(rows.name[at[int(np.argmax(rows.duration_ns[at]))]])]
