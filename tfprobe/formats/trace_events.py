"""Parse JSON in the trace event format: boxes, and the names of processes and threads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprobe.errors import UnreadableInput

_NS_PER_US = 1000
# The year 2116: half of what fits, so that two can be added.
_LATEST_NS = 2**62

# Any: what JSON holds.
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TraceEvents:
    """A document's events; `head` is what it says beside them."""

    head: Mapping[str, Any]
    events: Sequence[Event]
    processes: Mapping[tuple[str, ...], str]
    threads: Mapping[tuple[str, ...], str]

    def process(self, event: Event) -> str:
        """Return the name of the process that an event is drawn in, "" where it has none."""
        return self.processes.get(_key(event, ("pid",)), "")

    def thread(self, event: Event) -> str:
        """Return the name of the thread that an event is drawn in, else its number."""
        return self.threads.get(_key(event, ("pid", "tid")), str(event.get("tid", "")))


def parse(content: bytes) -> TraceEvents:
    """Return the events of a document.

    Raises UnreadableInput when the bytes are no JSON or hold no trace events.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise UnreadableInput(f"not JSON ({exc})") from exc
    found = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(found, list):
        raise UnreadableInput("JSON without trace events")
    events = [event for event in found if isinstance(event, dict)]
    head = document if isinstance(document, dict) else {}
    return TraceEvents(
        head=head,
        events=events,
        processes=_names(events, "process_name", ("pid",)),
        threads=_names(events, "thread_name", ("pid", "tid")),
    )


def args(event: Event) -> Mapping[str, Any]:
    """Return what an event says beside its name and time."""
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def times_ns(event: Event, base_ns: int = 0) -> tuple[int, int]:
    """Return start and duration of a box, whose times are µs after `base_ns`.

    Raises UnreadableInput where it has none that fit.
    """
    try:
        start_ns, duration_ns = (round(event[key] * _NS_PER_US) for key in ("ts", "dur"))
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise UnreadableInput(f"a box without a start and a duration ({event})") from exc
    if duration_ns < 0:
        raise UnreadableInput(f"a box that ends before it starts ({event})")
    start_ns += base_ns
    if not -_LATEST_NS < start_ns < _LATEST_NS - duration_ns:
        raise UnreadableInput(f"a box of the far future ({event})")
    return start_ns, duration_ns


def _names(events: Iterable[Event], kind: str, keys: tuple[str, ...]) -> dict[tuple[str, ...], str]:
    return {
        _key(event, keys): str(args(event).get("name", "")).strip()
        for event in events
        if event.get("ph") == "M" and event.get("name") == kind
    }


def _key(event: Event, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(event.get(key)) for key in keys)
