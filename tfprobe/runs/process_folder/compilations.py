"""Read the events of compilations and graph breaks, if their values have the types of the agent."""

from __future__ import annotations

import re
from typing import Any

from tfprobe.profile.compilations import (
    TORCH_COMPILE,
    XLA,
    ArgumentChange,
    Compilation,
    GraphBreak,
)
from tfprobe.runs.process_folder.events import Event

# JAX has XLA, PyTorch another backend.
_STAGES = ("trace_ns", "lower_ns", "xla_ns", "backend_ns")
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
    trace_ns, lower_ns, xla_ns, backend_ns = stages_ns
    guard = event.text("guard")
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
        backend_ns=backend_ns if xla_ns is None else xla_ns,
        is_first=event.fields.get("first") is True,
        is_cached=is_cached if isinstance(is_cached, bool) else None,
        changes=(changed_guard(guard),) if guard else changes,
        file=file,
        line=line,
        changes_left_out=max(left_out - len(changes or ()), 0),
        compiler=TORCH_COMPILE if event.text("compiler") == TORCH_COMPILE else XLA,
    )


def graph_break_of(event: Event) -> GraphBreak | None:
    """Return the graph break of an event; None if it is damaged."""
    name, reason = event.text("name"), event.text("reason")
    file, line = _place(event.fields.get("at"))
    if name is None or reason is None:
        return None
    return GraphBreak(
        process=0,
        loop=event.integer("work"),
        step=event.integer("step"),
        name=name,
        unix_ns=event.unix_ns,
        reason=reason,
        file=file,
        line=line,
        is_skipped=event.fields.get("skipped") is True,
    )


# What PyTorch says of a guard that does not hold, behind the number of the compilation it is of.
_NUMBER = re.compile(r"^\d+/\d+(?:_\d+)?: ")
_SCOPES = re.compile(r"\b[LG]\['([^']+)'\]")
_TENSOR = re.compile(
    r"tensor '(?P<argument>.+?)' (?P<what>.+?) mismatch(?P<place> at index \d+)?\."
    r"(?: expected (?P<before>.+?)(?:[,.] actual (?P<after>.+?))?\.?)?$",
    re.IGNORECASE,
)
_IDENTITY = re.compile(
    r"___check_(?P<what>type|obj)_id\((?P<argument>.+), \d+\)"
    r"(?:, type=<class '(?P<before>[^']+)'>)?"
)
_LENGTH = re.compile(r"^len\((?P<argument>.+)\) == (?P<before>\d+)$")
_SIZE = re.compile(r"(?P<argument>[\w.\[\]']+)\.size\(\)\[(?P<index>\d+)\]")
_VALUE = re.compile(r"^(?P<argument>[^=<>!]+?) (?:==|is) (?P<before>.+)$")
_KEY = re.compile(r"^KeyError on (?P<argument>.+)\[(?P<before>.+)\]$")
_EMPTY = re.compile(r"^not (?P<argument>[\w.]+)$")
_STATE = re.compile(r"^GLOBAL_STATE changed: ?(?P<what>.*)$")
_ANOTHER = "another"


def changed_guard(text: str) -> ArgumentChange:
    """Return what has changed for a guard of PyTorch not to hold, told from its words."""
    text = _SCOPES.sub(r"\1", _NUMBER.sub("", text)).strip()
    if found := _TENSOR.search(text):
        before, after = found["before"] or "", found["after"] or _ANOTHER
        return ArgumentChange(
            found["argument"], found["what"] + (found["place"] or ""), before, after
        )
    if found := _IDENTITY.search(text):
        what = "type" if found["what"] == "type" else "object"
        return ArgumentChange(found["argument"], what, found["before"] or "one", _ANOTHER)
    if found := _LENGTH.search(text):
        return ArgumentChange(found["argument"], "length", found["before"], _ANOTHER)
    if found := _SIZE.search(text):
        return ArgumentChange(found["argument"], f"size at index {found['index']}", text, _ANOTHER)
    if found := _STATE.search(text):
        return ArgumentChange(found["what"].strip(), "global state", "one", _ANOTHER)
    if found := _KEY.search(text):
        return ArgumentChange(found["argument"], "keys", found["before"], _ANOTHER)
    if found := _EMPTY.search(text):
        return ArgumentChange(found["argument"], "length", "0", _ANOTHER)
    if found := _VALUE.search(text):
        return ArgumentChange(found["argument"], "value", found["before"], _ANOTHER)
    return ArgumentChange("", "guard", text, "")


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
