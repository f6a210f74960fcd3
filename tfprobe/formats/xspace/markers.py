"""Find the steps that a program or its framework marked in an XSpace.

A step is an event with the stat `step_num` (tf.profiler.experimental.Trace, which Keras' callback
uses too); where there is none, a run of a Session. Both as XProf has them
(xprof/utils/xplane_to_step_events.cc).
"""

from __future__ import annotations

from typing import Any

from tfprobe.formats.trace import Marker
from tfprobe.formats.xspace.plane import Plane
from tfprobe.formats.xspace.stats import times_ns

_STEP = "step_num"
_RUN = "SessionRun"


def markers(plane: Plane) -> tuple[Marker, ...]:
    """Return the marked steps of the host's plane, by start."""
    keys = plane.stat_ids(_STEP)
    marked = _marked(plane, keys) if keys else []
    return tuple(sorted(marked or _runs(plane), key=lambda marker: marker.start_ns))


def _marked(plane: Plane, keys: set[int]) -> list[Marker]:
    found = []
    for line in plane.lines:
        events = [
            event for event in line.events if any(stat.metadata_id in keys for stat in event.stats)
        ]
        numbers = [plane.integer(event, _STEP) for event in events]
        found += _with_times(plane, line, events, numbers)
    return found


def _runs(plane: Plane) -> list[Marker]:
    """Return the runs of Sessions on the thread that has the most of them."""
    named = zip(plane.names.values(), plane.numbers.tolist(), strict=True)
    names = {number for name, number in named if name == _RUN}
    lines = enumerate(plane.lines if names else ())
    by_line = [(line, plane.events(at, names)) for at, line in lines]
    line, events = max(by_line, key=lambda each: len(each[1]), default=(None, []))
    return _with_times(plane, line, events, list(range(len(events)))) if events else []


def _with_times(plane: Plane, line: Any, events: list[Any], numbers: list[int]) -> list[Marker]:
    start_ns, duration_ns = times_ns(line, events)
    ends_ns = (start_ns + duration_ns).tolist()
    names = [plane.name_of(event) for event in events]
    columns = zip(numbers, start_ns.tolist(), ends_ns, names, strict=True)
    return [Marker(*each) for each in columns]
