"""The rooms of the analyser import each other only through the doors of docs/design.md."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, ROOT, dotted, imported_names, modules, tree

# Room -> the rooms it may import. `errors`, `printable` and the package itself (its version) are
# open to all.
# Rooms that are not built yet stand here so that their doors are decided before they are.
DOORS: dict[str, frozenset[str]] = {
    "analysis": frozenset({"profile"}),
    "attach": frozenset({"formats", "launch", "profile", "runs"}),
    "export": frozenset({"analysis", "findings", "formats", "profile", "report"}),
    "findings": frozenset({"analysis", "profile"}),
    "formats": frozenset({"profile"}),
    "launch": frozenset({"runs"}),
    "live": frozenset({"analysis", "findings", "profile", "profile/reader", "report", "runs"}),
    "profile": frozenset(),
    # What fills the tables: the only part of the room that knows files.
    "profile/reader": frozenset({"formats", "profile", "runs"}),
    "query": frozenset({"analysis", "findings", "profile", "profile/reader", "report", "runs"}),
    "report": frozenset({"analysis", "findings", "profile"}),
    "runs": frozenset({"profile"}),
    "tfprof": frozenset(
        {"analysis", "export", "findings", "formats", "profile", "profile/reader"}
    ),
    "trial": frozenset({"analysis", "findings", "launch", "runs"}),
    "web": frozenset(
        {
            "analysis",
            "export",
            "findings",
            "live",
            "profile",
            "profile/reader",
            "query",
            "report",
            "runs",
        }
    ),
}  # fmt: skip
# A folder of the analysis imports only those before it.
ANALYSIS = (
    "core",
    "breakdown",
    "steps",
    "ops",
    "input",
    "transfers",
    "memory",
    "distributed",
    "system",
    "jobs",
    "timeline",
    "account",
    "compare",
)
# A folder with more is several concepts, and gets folders of its own.
MOST_MODULES = 15
EVERYTHING = frozenset(DOORS)
DOORS["cli"] = EVERYTHING
# Modules beside the rooms: what a person runs and what a program imports.
FRONT = {
    "__init__": frozenset({"marks", "notebook", "recording"}),
    "__main__": frozenset({"cli"}),
    "errors": frozenset(),
    "marks": frozenset(),
    "notebook": frozenset(),
    "printable": frozenset(),
    "recording": EVERYTHING,
}
ALLOWED = {**DOORS, **FRONT}


def _room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    if "/".join(parts[:2]) in DOORS:
        return "/".join(parts[:2])
    return parts[0].removesuffix(".py")


def _imported_rooms(path: Path) -> set[str]:
    names = imported_names(tree(path), dotted(path, ROOT))
    return {room for name in names if (room := _room_named(name))}


def _room_named(name: str) -> str | None:
    """Return the room that a dotted name is in; none for names of the package itself."""
    parts = name.split(".")
    if parts[0] != "tfprobe" or len(parts) < 2:
        return None
    if "/".join(parts[1:3]) in DOORS:
        return "/".join(parts[1:3])
    exists = (PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").exists()
    return parts[1] if exists else None


@pytest.mark.parametrize("path", modules(PACKAGE), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_through_the_doors(path: Path) -> None:
    """A module imports its own room, `errors`, and the rooms its door leads to."""
    room = _room(path)

    allowed = ALLOWED[room] | {room, "errors", "printable"}

    assert _imported_rooms(path) - allowed == set()


@pytest.mark.parametrize("folder", ANALYSIS)
def test_analysis_imports_only_what_stands_before(folder: str) -> None:
    """From what several questions need, to comparing whole runs."""
    before = {*ANALYSIS[: ANALYSIS.index(folder)], folder}

    imported = {
        match[1]
        for path in modules(PACKAGE / "analysis" / folder)
        for name in imported_names(tree(path), dotted(path, ROOT))
        if (match := re.match(r"tfprobe\.analysis\.(\w+)", name))
    }

    assert imported - before == set()


def test_every_folder_of_the_analysis_has_its_place() -> None:
    """A new one decides what it may import."""
    folders = {path.parent.relative_to(PACKAGE).parts[1] for path in _analysis_modules()}

    assert folders == set(ANALYSIS)


def test_no_folder_has_more_than_fifteen_modules() -> None:
    """`__init__.py` aside. What is more has named folders of its own."""
    sizes = Counter(path.parent for path in modules(PACKAGE) if path.name != "__init__.py")

    too_many = {
        str(path.relative_to(PACKAGE)): size for path, size in sizes.items() if size > MOST_MODULES
    }
    assert too_many == {}


def _analysis_modules() -> list[Path]:
    return [path for path in modules(PACKAGE / "analysis") if path.parent.name != "analysis"]


def test_every_room_is_listed() -> None:
    """A new room decides its doors first."""
    rooms = {_room(path) for path in modules(PACKAGE)}

    assert rooms - set(ALLOWED) == set()


def test_the_design_page_names_every_room() -> None:
    """docs/design.md describes what is built."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

    built = {room for room in DOORS if "/" not in room and (PACKAGE / room).is_dir()}

    assert {room for room in built if f"  {room}/" not in page} == set()


def test_every_module_says_what_it_holds() -> None:
    """A module opens with a sentence."""
    silent = [path for path in modules(PACKAGE) if not _docstring(path)]

    assert silent == []


def _docstring(path: Path) -> str | None:
    return ast.get_docstring(tree(path))
