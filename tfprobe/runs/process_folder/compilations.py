"""Read the events of compilations: only those whose values have the types that the agent writes."""

from __future__ import annotations

from typing import Any

from tfprobe.profile.compilations import ArgumentChange, Compilation
from tfprobe.runs.process_folder.events import Event

_STAGES = ("trace_ns", "lower_ns", "xla_ns")
# A larger time in ns is damage: 2^62 ns are 146 years.
_MOST = 1 << 62


def compilation_of(event: Event) -> Compilation | None:
    """Return the compilation of an event, its start in monotonic ns; None if it is damaged."""
    name, start_ns = event.text("name"), event.integer("start_ns")
    stages_ns = [event.integer(stage) for stage in _STAGES]
    changes = _changes(event.fields.get("changed"))
    if name is None or start_ns is None or isinstance(changes, str):
        return None
    if not all(0 <= (ns or 0) < _MOST for ns in (start_ns, *stages_ns)):
        return None
    trace_ns, lower_ns, xla_ns = stages_ns
    is_cached, left_out = event.fields.get("cached"), event.integer("changes") or 0
    file, line = _place(event.fields.get("called_at"))
    return Compilation(
        process=0,
        loop=event.integer("work"),
        step=event.integer("step"),
        name=name,
        start_ns=start_ns,
        trace_ns=trace_ns,
        lower_ns=lower_ns,
        xla_ns=xla_ns,
        is_first=event.fields.get("first") is True,
        is_cached=is_cached if isinstance(is_cached, bool) else None,
        changes=changes,
        file=file,
        line=line,
        changes_left_out=max(left_out - len(changes or ()), 0),
    )


# Any, here and below: whatever JSON value the agent wrote.
def _changes(values: Any) -> tuple[ArgumentChange, ...] | str | None:
    """Return the changes, None if they are not known, or what is wrong with them."""
    if values is None:
        return None
    if not isinstance(values, list):
        return "no list"
    found = [_change(value) for value in values]
    known = tuple(change for change in found if change is not None)
    return known if len(known) == len(found) else "damaged"


def _change(value: Any) -> ArgumentChange | None:
    if not isinstance(value, dict):
        return None
    keys = ("argument", "what", "before", "after")
    words = [word for word in map(value.get, keys) if isinstance(word, str)]
    return ArgumentChange(*words) if len(words) == len(keys) else None


def _place(value: Any) -> tuple[str, int]:
    if isinstance(value, list) and len(value) == 2:
        file, line = value
        if isinstance(file, str) and isinstance(line, int):
            return file, line
    return "", 0
