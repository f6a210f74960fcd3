"""What a session of PyTorch's profiler knows beside its trace: modules, and lines that call."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load

event_tree = load("frameworks.torch.event_tree")

# As PyTorch shortens them, by the directories of sys.path.
JOB, LIBRARY = "train.py", "torch/_tensor.py"
KINDS = SimpleNamespace(PyCall="PyCall", PyCCall="PyCCall", TorchOp="TorchOp")


def event(
    tag: str, name: str, start_ns: int, caller: tuple[str, int], *children: Any, module: int = 0
) -> Any:
    """Return an event as PyTorch's are: what is called, and from where."""
    fields = SimpleNamespace(caller=SimpleNamespace(file_name=caller[0], line_number=caller[1]))
    if tag == KINDS.PyCall:
        fields.module = SimpleNamespace(self_ptr=module) if module else None
    return SimpleNamespace(
        tag=tag, name=name, start_time_ns=start_ns, children=children, extra_fields=fields
    )


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch is imported."""
    profiler = SimpleNamespace(_EventType=KINDS)
    module = SimpleNamespace(_C=SimpleNamespace(_profiler=profiler))
    monkeypatch.setitem(sys.modules, "torch", module)


@pytest.mark.usefixtures("torch", "state")
def test_calls_and_modules_are_found() -> None:
    """Ops call nothing, and nobody calls the outermost function."""
    linear = event("PyCall", "nn.Module: Linear_0", 30, (JOB, 12), module=4096)
    inner = event("PyCCall", "<built-in function linear>", 35, (LIBRARY, 3))
    added = event("TorchOp", "aten::add", 20, ("", 0), linear)
    roots = [
        event("PyCall", "train.py(5): step", 10, (JOB, 9), added),
        inner,
        event("PyCall", "train.py(1): <module>", 5, ("", 0)),
    ]

    found = event_tree.search(SimpleNamespace(experimental_event_tree=lambda: roots))

    assert found.modules == {"Linear_0": 4096}
    assert list(found.files) == [LIBRARY, JOB]
    assert sorted(found.calls) == [(10, 1, 9), (30, 1, 12), (35, 0, 3)]


@pytest.mark.usefixtures("torch", "state")
def test_without_callers_there_are_modules_alone() -> None:
    """A release may name them otherwise."""
    root = event("PyCall", "nn.Module: Linear_0", 30, (JOB, 12), module=4096)
    del root.extra_fields.caller

    found = event_tree.search(SimpleNamespace(experimental_event_tree=lambda: [root]))

    assert (found.modules, found.calls) == ({"Linear_0": 4096}, [])


def known() -> Any:
    """Return calls of two files."""
    found = event_tree.Found()
    found.files = {"b.py": 0, "a.py": 1}
    found.calls = [(30, 1, 12), (10, 0, 9)]
    return found


@pytest.mark.parametrize("end", ["", "\n", " \n"])
def test_calls_are_added_to_a_trace(tmp_path: Path, end: str) -> None:
    """It stays one object of JSON, with all that it had."""
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": [\n  ],"traceName": "x" }' + end)

    event_tree.add_calls(str(trace), known())

    document = json.loads(trace.read_text())
    assert document["traceName"] == "x"
    assert document["tfprobe_calls"] == {
        "files": ["b.py", "a.py"],
        "start_ns": [10, 30],
        "file": [0, 1],
        "line": [9, 12],
    }


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"traceEvents": ['])
def test_what_is_no_whole_trace_stays_as_it_is(tmp_path: Path, content: str) -> None:
    """As where the disk was full."""
    trace = tmp_path / "trace.json"
    trace.write_text(content)

    event_tree.add_calls(str(trace), known())

    assert trace.read_text() == content
