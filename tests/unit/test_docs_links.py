"""Links between the pages of the documentation lead somewhere."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
# `[text](target)`, images too; a target in angle brackets or with a title is not used here.
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of this repository, and every anchor a heading in it."""
    links = _links(page)

    assert [link for link in links if not _leads_somewhere(page, link)] == []


def test_the_index_lists_every_page() -> None:
    """docs/README.md leads to all of docs/."""
    index = ROOT / "docs" / "README.md"

    listed = {link.partition("#")[0] for link in _links(index)}

    assert {page.name for page in index.parent.glob("*.md")} - listed == {"README.md"}


def test_an_anchor_is_made_of_the_heading_as_github_makes_it() -> None:
    """Lower case, without punctuation; a repeated heading is numbered."""
    text = "# `run.json`: *what* it is\n## A (b) c_d\n```\n# no heading\n```\n## A (b) c_d\n"

    assert _anchors(text) == {"runjson-what-it-is", "a-b-c_d", "a-b-c_d-1"}


def _links(page: Path) -> list[str]:
    text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in _LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in _anchors(target.read_text(encoding="utf-8"))


def _anchors(text: str) -> set[str]:
    anchors = []
    repeats: Counter[str] = Counter()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        anchors.append(f"{anchor}-{repeats[anchor]}" if repeats[anchor] else anchor)
        repeats[anchor] += 1
    return set(anchors)
