"""Draw the traced steps of all processes of a run on one axis, for Perfetto and chrome://tracing.

A device of a process is a row of lanes: threads of the host, streams of an accelerator. The steps
have a row of their own, where boxes are as long as the step's own clock says. Ranks come in their
order. The text comes in pieces, for a run may have millions of executions.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.distributed.aligned import Aligned
from tfprobe.analysis.timeline.lanes import Lanes
from tfprobe.errors import Missing
from tfprobe.export.synchronization_events import clock_document, clock_label, met_rows
from tfprobe.export.trace_events import arrow_end, box, counter, process, thread, us
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.profile import Capture, Loop, Process, titled

Int64s = npt.NDArray[np.int64]

_NS_PER_MS = 1_000_000
# The distance between the sort positions of two processes: no process has so many devices.
_PLACES = 1_000
_CATEGORIES = {
    Place.HOST: "host",
    Place.ACCELERATOR: "kernel",
    Place.HOST_TO_DEVICE: "copy to device",
    Place.DEVICE_TO_HOST: "copy to host",
    Place.DEVICE_TO_DEVICE: "copy on device",
}


def run_timeline(together: Aligned) -> Iterator[str]:
    """Yield the text of the file, event by event.

    Times count from the first moment in it, `otherData.start_unix_ns`: both viewers hold them as
    64-bit floats of µs, which for the time of day are a quarter of a µs apart.
    """
    timeline = _Timeline(together)
    about = {
        "run": together.profile.run.id,
        "start_unix_ns": str(timeline.start_ns),
        "written_by": "tfprobe",
        "times": "as recorded" if together.as_recorded else "by the clock of the reference",
        "clocks": clock_document(together),
    }
    yield f'{{"displayTimeUnit":"ns","otherData":{json.dumps(about)},"traceEvents":[\n'
    separator = ""
    for event in timeline.events():
        yield separator + event
        separator = ",\n"
    yield "\n]}\n"


class _Timeline:
    """The place of everything: pids of processes and devices, lanes of executions."""

    def __init__(self, together: Aligned) -> None:
        profile = together.profile
        self._together = together
        self._profile = profile
        self._rows = profile.executions
        self._met = met_rows(together)
        # JSON text of each interned string, so that it is escaped once.
        self._texts = [json.dumps(text) for text in self._rows.strings.values]
        self._process_of = np.array(
            [capture.process for capture in profile.captures], dtype=np.int64
        )
        starts_ns = [capture.start_ns for capture in profile.captures]
        if len(self._rows):
            starts_ns.append(int(self._rows.start_ns.min()))
        self.start_ns = min(starts_ns, default=0)
        self._pids = np.zeros(len(self._rows), dtype=np.int64)
        self._lanes = np.zeros(len(self._rows), dtype=np.int64)
        self._last_pid = 0
        self._ordered = sorted(profile.processes, key=_order)
        self._place = {each.index: at for at, each in enumerate(self._ordered)}
        self._devices = dict.fromkeys(self._place, 0)

    def events(self) -> Iterator[str]:
        for each in self._ordered:
            yield from self._steps(each)
        yield from self._boxes()
        yield from self._launches()
        yield from self._gradients()
        yield from self._sends()
        yield from self._memory()

    def _steps(self, of: Process) -> Iterator[str]:
        captures = [each for each in self._profile.captures if each.process == of.index]
        if not captures:
            return
        pid = self._next_pid()
        label = clock_label(self._together, of.index)
        yield from process(pid, f"{_name(of)}: steps", place=self._next_place(of), label=label)
        lanes: dict[tuple[str, str], int] = {}
        for capture in captures:
            kind, name = _loop(self._profile.loops, capture)
            if (kind, name) not in lanes:
                lanes[kind, name] = len(lanes) + 1
                yield thread(pid, lanes[kind, name], f"{kind} {name}")
            yield self._step(capture, pid, lanes[kind, name], kind)
        for capture in captures:
            milliseconds = capture.duration_ns / _NS_PER_MS
            end_ns = capture.start_ns + capture.duration_ns
            yield counter("step time", pid, self._at(capture.start_ns), {"ms": milliseconds})
            yield counter("step time", pid, self._at(end_ns), {"ms": 0})

    def _step(self, capture: Capture, pid: int, lane: int, kind: str) -> str:
        args: dict[str, Any] = {"step": capture.step, "level": capture.level, "file": capture.file}
        if not isinstance(capture.plain_ns, Missing):
            args["usual_ms"] = capture.plain_ns / _NS_PER_MS
        name, start = json.dumps(f"{kind} {capture.step}"), self._at(capture.start_ns)
        return box(name, "step", pid, lane, start, us(capture.duration_ns), json.dumps(args))

    def _boxes(self) -> Iterator[str]:
        """Yield the executions, lane by lane; overlapping ones go to separate lanes."""
        rows = self._rows
        of = self._process_of[rows.capture] if len(rows) else rows.start_ns
        order = np.lexsort((-rows.duration_ns, rows.start_ns, rows.lane, rows.device, of)).tolist()
        device, lane, pid, lanes = (-1, -1), -1, 0, Lanes(0)
        for at in order:
            if (int(of[at]), int(rows.device[at])) != device:
                device, lane = (int(of[at]), int(rows.device[at])), -1
                pid, lanes = self._next_pid(), Lanes(0)
                yield from self._device(pid, self._profile.processes[device[0]], device[1])
            if int(rows.lane[at]) != lane:
                lane, lanes = int(rows.lane[at]), Lanes(lanes.last)
            start_ns = int(rows.start_ns[at])
            number, is_new = lanes.place(start_ns, start_ns + int(rows.duration_ns[at]))
            if is_new:
                yield thread(pid, number, rows.strings[lane])
            self._pids[at], self._lanes[at] = pid, number
            yield self._box(at, pid, number)

    def _device(self, pid: int, of: Process, device: int) -> Iterator[str]:
        name = f"{_name(of)}: {self._rows.strings[device]}"
        yield from process(pid, name, place=self._next_place(of))

    def _box(self, at: int, pid: int, lane: int) -> str:
        rows = self._rows
        capture = self._profile.captures[int(rows.capture[at])]
        args = f'{{"op":{self._texts[rows.op_type[at]]},"step":{capture.step}'
        if rows.bytes[at]:
            args += f',"bytes":{int(rows.bytes[at])}'
        if rows.output_bytes[at]:
            args += f',"output_bytes":{int(rows.output_bytes[at])}'
        args += self._met.args(at)
        category = _CATEGORIES[Place(int(rows.place[at]))]
        if rows.background[at]:
            category += ",background"
        start, duration = self._at(int(rows.start_ns[at])), us(int(rows.duration_ns[at]))
        return box(self._texts[rows.name[at]], category, pid, lane, start, duration, f"{args}}}")

    def _launches(self) -> Iterator[str]:
        """Yield an arrow to each kernel from the latest start of its op on the host."""
        rows = self._rows
        launches = _by_op(rows, np.flatnonzero(rows.place == Place.HOST))
        number = 0
        for at in np.flatnonzero(rows.place == Place.ACCELERATOR).tolist():
            of_op = launches.get((int(rows.capture[at]), int(rows.name[at])))
            if of_op is None:
                continue
            before = np.searchsorted(rows.start_ns[of_op], rows.start_ns[at], side="right")
            if before == 0:
                continue
            number += 1
            yield from self._arrow("launch", number, int(of_op[before - 1]), at)

    def _gradients(self) -> Iterator[str]:
        """Yield an arrow from each op of PyTorch to the op that differentiates it."""
        rows = self._rows
        linked = np.flatnonzero(rows.correlation < 0)
        keys = (rows.start_ns[linked], rows.correlation[linked], rows.capture[linked])
        linked = linked[np.lexsort(keys)]
        for number, (at, after) in enumerate(itertools.pairwise(linked.tolist()), start=1):
            same_capture = rows.capture[at] == rows.capture[after]
            if same_capture and rows.correlation[at] == rows.correlation[after]:
                yield from self._arrow("gradient", number, at, after)

    def _sends(self) -> Iterator[str]:
        """Yield an arrow from each send to the end of its receive on another rank."""
        for number, (send, receive) in enumerate(self._met.arrows(), start=1):
            # The end of a box is outside of it; one ns earlier is inside.
            last_ns = max(int(self._rows.duration_ns[receive]) - 1, 0)
            yield from self._arrow("send", number, send, receive, after_ns=last_ns)

    def _arrow(
        self, category: str, number: int, begin: int, end: int, *, after_ns: int = 0
    ) -> Iterator[str]:
        rows, name = self._rows, self._texts[self._rows.name[end]]
        for phase, at, after in (("s", begin, 0), ("f", end, after_ns)):
            at_us = self._at(int(rows.start_ns[at]) + after)
            pid, lane = int(self._pids[at]), int(self._lanes[at])
            yield arrow_end(phase, category, name, number, pid, lane, at_us)

    def _memory(self) -> Iterator[str]:
        """Yield the bytes that ops of a step have requested so far, by device; 0 after the step."""
        rows = self._rows
        # The bytes of a copy are those that it moved, not a request.
        requests = np.flatnonzero((rows.bytes > 0) & (rows.place == Place.HOST))
        ends_ns = rows.start_ns[requests] + rows.duration_ns[requests]
        order = np.lexsort((ends_ns, rows.capture[requests], self._pids[requests]))
        group, total = (-1, -1), 0
        for place in order.tolist():
            at = int(requests[place])
            here = int(self._pids[at]), int(rows.capture[at])
            if here != group:
                yield from self._memory_end(group)
                group, total = here, 0
            total += int(rows.bytes[at])
            at_us = self._at(int(ends_ns[place]))
            yield counter("requested in this step", here[0], at_us, {"bytes": total})
        yield from self._memory_end(group)

    def _memory_end(self, group: tuple[int, int]) -> Iterator[str]:
        pid, number = group
        if number >= 0:
            capture = self._profile.captures[number]
            at_us = self._at(capture.start_ns + capture.duration_ns)
            yield counter("requested in this step", pid, at_us, {"bytes": 0})

    def _next_pid(self) -> int:
        self._last_pid += 1
        return self._last_pid

    def _next_place(self, of: Process) -> int:
        nth = self._devices[of.index]
        self._devices[of.index] += 1
        return self._place[of.index] * _PLACES + min(nth, _PLACES - 1)

    def _at(self, unix_ns: int) -> str:
        return us(unix_ns - self.start_ns)


def _by_op(rows: Executions, chosen: npt.NDArray[np.intp]) -> dict[tuple[int, int], Int64s]:
    """Return the rows of each name in each capture, by start."""
    order = chosen[np.lexsort((rows.start_ns[chosen], rows.name[chosen], rows.capture[chosen]))]
    if not len(order):
        return {}
    captures, names = rows.capture[order], rows.name[order]
    cuts = np.flatnonzero((np.diff(captures) != 0) | (np.diff(names) != 0)) + 1
    groups = np.split(order, cuts)
    return {(int(rows.capture[group[0]]), int(rows.name[group[0]])): group for group in groups}


def _order(process: Process) -> tuple[bool, int, int]:
    """Return the sort position of a process: ranks in order, then processes without a rank."""
    return process.rank is None, process.rank or 0, process.index


def _name(process: Process) -> str:
    if process.rank is None:
        return titled(f"{process.host} {process.number}", process.title)
    role = f" ({process.role})" if process.role else ""
    return titled(f"rank {process.rank}{role} {process.host} {process.number}", process.title)


def _loop(loops: Sequence[Loop], capture: Capture) -> tuple[str, str]:
    for loop in loops:
        if loop.process == capture.process and loop.index == capture.loop:
            return loop.kind, loop.name
    return "step", "of unknown work"
