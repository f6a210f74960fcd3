"""The rooms of the analyser import each other only through the doors of docs/design.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, ROOT, dotted, imported_names, modules, tree

# Room -> the rooms it may import. `errors`, `printable` and the package itself (its version) are
# open to all.
# Rooms that are not built yet stand here so that their doors are decided before they are.
DOORS: dict[str, frozenset[str]] = {
    "advice": frozenset({"analysis", "model", "views"}),
    "analysis": frozenset({"model", "views"}),
    "export": frozenset({"advice", "model", "schema", "views"}),
    "ingest": frozenset({"model", "schema", "store"}),
    "launch": frozenset({"store"}),
    "live": frozenset({"advice", "analysis", "ingest", "model", "store", "views"}),
    "meter": frozenset({"store"}),
    "mirror": frozenset({"store"}),
    "model": frozenset(),
    "scale": frozenset({"advice", "analysis", "ingest", "model", "store", "views"}),
    "remote": frozenset({"launch", "schema", "store"}),
    "sampler": frozenset({"store"}),
    "schema": frozenset(),
    "store": frozenset(),
    "terminal": frozenset({"advice", "analysis", "model", "views"}),
    "tfprof": frozenset({"advice", "export", "ingest", "model", "schema", "views"}),
    # `analysis` and `views` are one layer: what is in views moves to analysis room by room.
    "views": frozenset({"analysis", "model"}),
    "web": frozenset(
        {"advice", "analysis", "export", "ingest", "live", "model", "scale", "store", "views"}
    ),
}  # fmt: skip
EVERYTHING = frozenset(DOORS)
DOORS["cli"] = EVERYTHING
# Modules beside the rooms: what a person runs and what a program imports.
FRONT = {
    "__init__": frozenset({"marks", "recording"}),
    "__main__": frozenset({"cli"}),
    "errors": frozenset(),
    "marks": frozenset(),
    "printable": frozenset(),
    "recording": EVERYTHING,
}
ALLOWED = {**DOORS, **FRONT}


def _room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def _imported_rooms(path: Path) -> set[str]:
    names = imported_names(tree(path), dotted(path, ROOT))
    rooms = {match[1] for name in names if (match := re.match(r"tfprobe\.(\w+)", name))}
    return {
        room for room in rooms if (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").exists()
    }


@pytest.mark.parametrize("path", modules(PACKAGE), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_through_the_doors(path: Path) -> None:
    """A module imports its own room, `errors`, and the rooms its door leads to."""
    room = _room(path)

    allowed = ALLOWED[room] | {room, "errors", "printable"}

    assert _imported_rooms(path) - allowed == set()


def test_every_room_is_listed() -> None:
    """A new room decides its doors first."""
    rooms = {_room(path) for path in modules(PACKAGE)}

    assert rooms - set(ALLOWED) == set()


def test_the_design_page_names_every_room() -> None:
    """docs/design.md describes what is built."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

    built = {room for room in DOORS if (PACKAGE / room).is_dir()}

    assert {room for room in built if f"  {room}/" not in page} == set()


def test_every_module_says_what_it_holds() -> None:
    """A module opens with a sentence."""
    silent = [path for path in modules(PACKAGE) if not _docstring(path)]

    assert silent == []


def _docstring(path: Path) -> str | None:
    return ast.get_docstring(tree(path))
