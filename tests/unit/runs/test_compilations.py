"""Events of compilations are read if their values have the types that the agent writes."""

from __future__ import annotations

from typing import Any

import pytest

from tfprobe.profile.compilations import ArgumentChange, Compilation, GraphBreak
from tfprobe.runs.process_folder.compilations import (
    changed_guard,
    compilation_of,
    graph_break_of,
)
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
        backend_ns=300,
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


SIZES = "0/1: tensor 'args[0]' size mismatch at index 0. expected 4, actual 5"


def test_a_compilation_of_pytorch_has_a_guard() -> None:
    """What it says is what has changed; the backend has a name of its own."""
    found = read(xla_ns=None, backend_ns=700, changed=None, guard=SIZES, compiler="torch.compile")

    assert found is not None
    assert (found.backend_ns, found.compiler) == (700, "torch.compile")
    assert found.changes == (ArgumentChange("args[0]", "size at index 0", "4", "5"),)


def test_a_guard_that_is_not_known_is_no_change() -> None:
    """Old releases of PyTorch do not tell."""
    found = read(changed=None, guard="", compiler="torch.compile")

    assert found is not None
    assert found.changes is None


@pytest.mark.parametrize(
    ("guard", "change"),
    [
        ("tensor 'L['x']' dtype mismatch. expected Float, actual Double",
         ("x", "dtype", "Float", "Double")),
        ("0/0: tensor 'x' rank mismatch. expected 2, actual 1", ("x", "rank", "2", "1")),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=0",
         ("x", "requires_grad", "requires_grad=0", "another")),
        ("5/6: G['i'] == 6", ("i", "value", "6", "another")),
        ("self.n == 0", ("self.n", "value", "0", "another")),
        ("len(L['xs']) == 2", ("xs", "length", "2", "another")),
        ("not n", ("n", "length", "0", "another")),
        ("KeyError on n['a']", ("n", "keys", "'a'", "another")),
        ("___check_type_id(n, 139862), type=<class 'int'>", ("n", "type", "int", "another")),
        ("___check_obj_id(L['f'], 139862)", ("f", "object", "one", "another")),
        ("2 <= x.size()[0] <= 6", ("x", "size at index 0", "2 <= x.size()[0] <= 6", "another")),
        ("GLOBAL_STATE changed: grad_mode ", ("grad_mode", "global state", "one", "another")),
        ("0/0: something new", ("", "guard", "something new", "")),
    ],
)  # fmt: skip
def test_guards_are_told_from_their_words(guard, change) -> None:
    """Those of PyTorch 2.13; what is not known keeps its words."""
    assert changed_guard(guard) == ArgumentChange(*change)


def test_a_graph_break_is_read_whole() -> None:
    """One without a place has none."""
    fields = {"work": 1, "step": 3, "name": "f", "reason": "print", "at": ["/a/b.py", 14]}

    found = graph_break_of(Event("graph_break", 7, fields))
    damaged = graph_break_of(Event("graph_break", 7, {**fields, "reason": 3}))

    assert found == GraphBreak(0, 1, 3, "f", 7, "print", "/a/b.py", 14)
    assert damaged is None
