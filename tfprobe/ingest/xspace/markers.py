"""Find the steps that a program or its framework marked in an XSpace.

A step is an event with the stat `step_num` (tf.profiler.experimental.Trace, which Keras' callback
uses too); where there is none, a run of a Session. Both as XProf has them
(xprof/utils/xplane_to_step_events.cc).
"""

from __future__ import annotations

from typing import Any

from tfprobe.ingest.trace import Marker
from tfprobe.ingest.xspace.stats import integer, times_ns

_STEP = "step_num"
_RUN = "SessionRun"


def markers(plane: Any) -> tuple[Marker, ...]:
    """Return the marked steps of the host's plane, by start. Any: an XPlane."""
    keys = [at for at, each in plane.stat_metadata.items() if each.name == _STEP]
    marked = _marked(plane, set(keys)) if keys else []
    return tuple(sorted(marked or _runs(plane), key=lambda marker: marker.start_ns))


def _marked(plane: Any, keys: set[int]) -> list[Marker]:
    found = []
    for line in plane.lines:
        events = [
            event for event in line.events if any(stat.metadata_id in keys for stat in event.stats)
        ]
        numbers = [integer(plane, event, _STEP) for event in events]
        found += _with_times(plane, line, events, numbers)
    return found


def _runs(plane: Any) -> list[Marker]:
    """Return the runs of Sessions on the thread that has the most of them."""
    names = {at for at, each in plane.event_metadata.items() if each.name == _RUN}
    by_line = [
        (line, [event for event in line.events if event.metadata_id in names])
        for line in (plane.lines if names else ())
    ]
    line, events = max(by_line, key=lambda each: len(each[1]), default=(None, []))
    return _with_times(plane, line, events, list(range(len(events)))) if events else []


def _with_times(plane: Any, line: Any, events: list[Any], numbers: list[int]) -> list[Marker]:
    start_ns, duration_ns = times_ns(line, events)
    ends_ns = (start_ns + duration_ns).tolist()
    names = [plane.event_metadata[event.metadata_id].name for event in events]
    columns = zip(numbers, start_ns.tolist(), ends_ns, names, strict=True)
    return [Marker(*each) for each in columns]
