"""Sum up what devices and tasks send each other, by op and by both ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.core.tensor_sizes import outputs_bytes
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import Node
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, having

OPS: tuple[str, ...] = ("RecvTensor", "Recv", "Send", "_HostRecv", "_HostSend", "_Recv", "_Send")
# TensorFlow's label of a tensor from another task: "[1.2MB] grad from /job:ps/... to /job:...".
_LABEL = re.compile(
    r"\[(?P<size>[\d.]+)(?P<unit>[KMG]?i?B)\] (?:\[\S+b/s\] )?(?P<tensor>.*)"
    r" from (?P<from>\S+) to (?P<to>\S+)"
)
# The tensor between a Send and a Recv is named after their edge, the ops have a number.
_EDGE = re.compile(r"\Aedge_\d+_|/_\d+\Z")
_DEVICE = re.compile(r"/device:.*|/[cg]pu:.*", re.IGNORECASE)
_UNITS = {"B": 1, "KB": 2**10, "KiB": 2**10, "MB": 2**20, "MiB": 2**20, "GB": 2**30, "GiB": 2**30}


@dataclass(frozen=True, slots=True)
class Sends:
    """Sends or receives between two ends, "" if an end is unknown.

    `time_ns` is from the start of the op to its end; for a receive, that is mostly waiting for what
    is sent to be computed. `bytes` are those of the `sized` ones.
    """

    op_type: str
    source: str
    target: str
    count: int
    sized: int
    bytes: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Ends:
    """TensorFlow's description of a tensor that is sent: its name, devices and size."""

    tensor: str
    source: str
    target: str
    bytes: int

    @property
    def is_within_task(self) -> bool:
        """Say whether both devices are of one task."""
        return bool(self.source) and task_of(self.source) == task_of(self.target)


def task_of(device: str) -> str:
    """Return the task of a device: "/job:ps/replica:0/task:0" for that with "/device:CPU:0"."""
    return _DEVICE.sub("", device)


def ends_of(detail: str) -> Ends | None:
    """Return what the label of a row says about a tensor that is sent."""
    label = _LABEL.search(detail)
    if label is None:
        return None
    size = round(float(label["size"]) * _UNITS[label["unit"]])
    return Ends(label["tensor"], label["from"], label["to"], size)


def tensor_of(name: str) -> str:
    """Return the name of a tensor, given that of its edge, Send or Recv."""
    return _EDGE.sub("", name)


def is_sent(rows: Executions) -> Flags:
    """Say for each row whether it sends or receives, for the step itself."""
    are_sent = having(rows.strings, rows.op_type, OPS.__contains__)
    found: Flags = are_sent & (rows.place == Place.HOST) & ~rows.background
    return found


def sends(profile: Profile, origins: Origins) -> tuple[Sends, ...] | Missing:
    """Return the sends and receives of the traced steps, the longest first."""
    rows = profile.executions
    chosen = np.flatnonzero(is_sent(rows))
    if not len(chosen):
        return Missing("the traced steps send nothing between devices or tasks")
    found: dict[tuple[str, str, str], list[int]] = {}
    columns = np.stack((rows.name[chosen], rows.op_type[chosen], rows.detail[chosen]))
    kinds, inverse = np.unique(columns, axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    for at, (name, op_type, detail) in enumerate(kinds.T.tolist()):
        mine = chosen[inverse == at]
        node = origins.node(rows.strings[name])
        source, target, label = _ends(rows.strings[detail], node)
        size = np.where(rows.output_bytes[mine] > 0, rows.output_bytes[mine], label)
        if not label and node is not None:
            size = np.where(size > 0, size, outputs_bytes(node, origins.shapes) or 0)
        sums = found.setdefault((rows.strings[op_type], source, target), [0, 0, 0, 0])
        sums[0] += len(mine)
        sums[1] += int((size > 0).sum())
        sums[2] += int(size.sum())
        sums[3] += int(rows.duration_ns[mine].sum())
    every = [Sends(*key, *sums) for key, sums in found.items()]
    return tuple(sorted(every, key=lambda send: (-send.time_ns, send.op_type, send.source)))


def _ends(detail: str, node: Node | None) -> tuple[str, str, int]:
    """Return where a tensor is sent from and to, and its bytes, 0 if unknown."""
    label = ends_of(detail)
    if label is not None:
        return label.source, label.target, label.bytes
    attributes = node.attributes if node else {}
    return str(attributes.get("send_device", "")), str(attributes.get("recv_device", "")), 0
