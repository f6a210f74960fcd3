"""CONTRIBUTING.md describes the house as it stands."""

from __future__ import annotations

import re

from tests.architecture.source import PACKAGE, ROOT

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
HOUSE = GUIDE.partition("## The house")[2].partition("## How to add")[0]


def test_every_room_is_in_the_guide() -> None:
    """Each folder of tfprobe/ has its line in the table, and no line is about one that is gone."""
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert set(re.findall(r"^\| `(\w+)` \|", HOUSE, re.MULTILINE)) == rooms


def test_every_file_that_the_guide_names_is_there() -> None:
    """A reader can open each; names with NAME in them are those of files to write."""
    named = re.findall(r"`((?:docs|sitecustomize_hooks|tests|tfprobe)/[\w./]*)`", GUIDE)
    linked = re.findall(r"\]\(([\w./]+\.md)[)#]", GUIDE)

    paths = {path for path in named + linked if "NAME" not in path}
    assert {path for path in paths if not (ROOT / path).exists()} == set()
