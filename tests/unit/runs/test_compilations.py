"""Events of compilations are read if their values have the types that the agent writes."""

from __future__ import annotations

from typing import Any

import pytest

from tfprobe.profile.compilations import ArgumentChange, Compilation
from tfprobe.runs.process_folder.compilations import compilation_of
from tfprobe.runs.process_folder.events import Event

FIELDS: dict[str, Any] = {
    "work": 2,
    "step": 7,
    "name": "train_step",
    "count": 2,
    "start_ns": 1000,
    "trace_ns": None,
    "lower_ns": 20,
    "xla_ns": 300,
    "cached": True,
    "first": False,
    "changed": [{"argument": "x", "what": "shape", "before": "float32[8]", "after": "float32[5]"}],
    "changes": 1,
    "called_at": ["/home/ada/train.py", 31],
}


def read(**changes: Any) -> Compilation | None:
    """Return what is read of an event with these fields."""
    return compilation_of(Event("compile", 1, {**FIELDS, **changes}))


def test_a_compilation_is_read_whole() -> None:
    """A stage that was not needed took no time."""
    assert read() == Compilation(
        process=0,
        loop=2,
        step=7,
        name="train_step",
        start_ns=1000,
        trace_ns=None,
        lower_ns=20,
        xla_ns=300,
        is_first=False,
        is_cached=True,
        changes=(ArgumentChange("x", "shape", "float32[8]", "float32[5]"),),
        file="/home/ada/train.py",
        line=31,
    )


def test_what_is_not_known_is_none() -> None:
    """No loop, no step, no comparison, no line."""
    found = read(work=None, step=None, changed=None, cached=None, called_at=["", 0])

    assert found is not None
    assert (found.loop, found.step, found.changes, found.is_cached) == (None, None, None, None)
    assert (found.file, found.line) == ("", 0)


def test_further_changes_are_counted() -> None:
    """The agent writes the first ten of them."""
    found = read(changes=12)

    assert found is not None
    assert found.changes_left_out == 11


@pytest.mark.parametrize(
    "damage",
    [
        {"name": 3},
        {"start_ns": None},
        {"xla_ns": -1},
        {"lower_ns": 1 << 62},
        {"changed": "x"},
        {"changed": [3]},
        {"changed": [{"argument": "x"}]},
    ],
)
def test_a_damaged_event_is_none(damage) -> None:
    """Its process has a problem then."""
    assert read(**damage) is None
