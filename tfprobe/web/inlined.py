"""Which questions the one file answers, the most important first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from tfprobe.web.answers import ANSWERS
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages import timeline

Arguments: TypeAlias = Mapping[str, str | int]

# What a reader opens first; the other pages follow as they are sorted.
FIRST = ("overview", "findings", "steps", "ops", "scopes", "code")

# What a page is asked for beside its first look, the most important first, sorted by page.
FURTHER: Mapping[str, Callable[[OpenRun], Iterable[Arguments]]] = {
    "timeline": timeline.further,
    "timeline-slice": timeline.further_slices,
}


def questions(run: OpenRun) -> Iterator[tuple[str, Arguments]]:
    """Give each page's first look, then by turns what else they may be asked for."""
    pages = [name for name in FIRST if name in ANSWERS]
    pages += sorted(set(ANSWERS).difference(pages))
    for name in pages:
        yield name, {}
    further = [((name, each) for each in FURTHER[name](run)) for name in pages if name in FURTHER]
    for row in itertools.zip_longest(*further):
        yield from (each for each in row if each is not None)
