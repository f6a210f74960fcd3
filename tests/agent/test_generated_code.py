"""Code that AutoGraph generated is named by the lines of the program, without an import."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pytest

from tests.support.agent import load

graphs = load("frameworks.tensorflow.graphs")

TRAIN = "/home/ada/train.py"
NEW, OLD = "/tmp/__autograph_generated_fileab12cd34.py", "/tmp/tmpab12cd34.py"


class Code:
    """The weak keys of caches of conversions."""


class LineLocation(NamedTuple):
    filename: str
    lineno: int


def source_map(file: str, lines: dict[int, int], source: str = TRAIN) -> Any:
    origins = {
        LineLocation(file, line): SimpleNamespace(
            loc=SimpleNamespace(filename=source, lineno=origin), function_name="model"
        )
        for line, origin in lines.items()
    }
    return SimpleNamespace(source_map=origins)


@pytest.fixture(params=["tensorflow", "tensorflow_core", "tensorflow 2"])
def autograph(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let AutoGraph of each generation of TensorFlow have converted something."""
    key = Code()
    cache: WeakKeyDictionary[Code, Any] = WeakKeyDictionary()

    def convert(*maps: Any) -> None:
        cache[key] = dict(enumerate(maps))
        holder = SimpleNamespace(_cache=SimpleNamespace(_cache=cache))
        package = request.param.partition(" ")[0] + ".python.autograph.impl."
        is_new = request.param.endswith("2")
        name = package + ("api" if is_new else "conversion")
        module = ModuleType(name)
        if is_new:
            module.__dict__["_TRANSPILER"] = holder
        else:
            module.__dict__["_CACHE"] = holder._cache
        monkeypatch.setitem(sys.modules, name, module)

    yield convert
    assert key in cache  # it keeps its entry


@pytest.mark.parametrize("file", [NEW, OLD])
def test_a_generated_line_is_mapped_to_its_origin(autograph: Any, file: str) -> None:
    """Code that AutoGraph added has no origin and is left out."""
    autograph(source_map(file, {20: 12}))

    places = [(TRAIN, 30, "<module>"), (file, 18, "loop_body"), (file, 20, "tf__model")]

    assert graphs.sources_of(places) == [(TRAIN, 30, "<module>"), None, (TRAIN, 12, "model")]


def test_code_converted_twice_is_mapped_twice(autograph: Any) -> None:
    """Generated code may be given to AutoGraph again."""
    autograph(source_map(NEW, {20: 12}), source_map(OLD, {7: 20}, source=NEW))

    assert graphs.sources_of([(OLD, 7, "tf__tf__model")]) == [(TRAIN, 12, "model")]


def test_a_circular_map_ends(autograph: Any) -> None:
    """The search ends whatever the map contains."""
    autograph(source_map(NEW, {20: 20}, source=NEW))

    assert graphs.sources_of([(NEW, 20, "f")]) == [None]


def test_a_file_of_the_job_with_such_a_name_is_unchanged(autograph: Any) -> None:
    """A notebook's cell may run from a temporary file."""
    autograph(source_map(NEW, {20: 12}))

    assert graphs.sources_of([(OLD, 3, "main")]) == [(OLD, 3, "main")]


def test_nothing_is_imported_without_autograph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that never converted anything has no such module."""
    for name in [name for name in sys.modules if ".autograph.impl" in name]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)

    assert graphs.sources_of([(NEW, 20, "f")]) == [(NEW, 20, "f")]
    assert set(sys.modules) == before


def test_a_gap_names_the_function_that_was_written(autograph: Any) -> None:
    """Both the function and the line it calls from; the def that AutoGraph wrote has no origin."""
    autograph(source_map(NEW, {12: 21, 14: 22}))
    functions = [
        [TRAIN, 1, "<module>", False],
        [NEW, 10, "tf__slow", False],
        ["", 0, "time.sleep", False],
    ]
    calls = [[-1, 0, 30, 1, 5], [0, 1, 31, 1, 5], [1, 2, 14, 1, 9]]

    graphs.name_sources(calls, functions)

    assert functions[1] == [TRAIN, 21, "model", False]
    assert [call[2] for call in calls] == [30, 31, 22]


def test_a_code_map_has_no_generated_file(autograph: Any) -> None:
    """The stacks of ops stay whole without the frames that are left out."""
    autograph(source_map(NEW, {20: 12}))
    code = graphs._CodeMap()
    stack = [(TRAIN, 30, "<module>", ""), (NEW, 18, "loop_body", ""), (NEW, 20, "tf__model", "")]
    code.ops["MatMul"] = code._stack(SimpleNamespace(traceback=stack))

    document = json.loads(code.to_json())

    assert document["files"] == [TRAIN]
    frames = [document["frames"][index] for index in document["stacks"][document["ops"]["MatMul"]]]
    assert [(line, document["functions"][name]) for _, line, name in frames] == [
        (30, "<module>"),
        (12, "model"),
    ]


def test_the_generated_file_is_not_needed(tmp_path: Path) -> None:
    """It is deleted when the job ends: nothing is read from it."""
    assert graphs.sources_of([(str(tmp_path / "tmpgone.py"), 1, "f")]) == [
        (str(tmp_path / "tmpgone.py"), 1, "f")
    ]
