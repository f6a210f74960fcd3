"""Which questions the one file answers, the most important first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tfprobe.analysis.core.op_attribution import BYS
from tfprobe.analysis.jobs.rank_steps import MEASURES
from tfprobe.analysis.memory.memory_peak import HELD_BYS
from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.web.answers import ANSWERS, answer
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages import timeline
from tfprobe.web.priced import METRICS
from tfprobe.web.question import Question

# The arguments of a question, as its page sends them: without those that are its defaults.
Arguments: TypeAlias = Mapping[str, str | int]
Further: TypeAlias = Callable[[OpenRun], Iterable[Arguments]]

# What a reader opens first; the other pages follow as they are sorted.
FIRST = ("overview", "header", "shares", "findings", "steps", "ops", "scopes", "code")
# Beyond these nobody looks who has no server; and each takes its time to be made.
MOST_OF_A_PAGE = 150
_MOST_WORKS = 8
_MOST_ROWS = 20
_MOST_TYPES = 100
# A timeline takes longer to be made than all else, and more room.
_MOST_TIMELINES = 24
_MOST_OF_RANKS = 4
_METRICS = [{"metric": each} for each in METRICS]


def questions(run: OpenRun) -> Iterator[tuple[str, Arguments]]:
    """Give each page's first look, then by turns what else they may be asked for."""
    pages = [name for name in FIRST if name in ANSWERS]
    pages += sorted(set(ANSWERS).difference(pages))
    for name in pages:
        yield name, {}
    further = [_named(name, FURTHER[name](run)) for name in pages if name in FURTHER]
    for row in itertools.zip_longest(*further):
        yield from (each for each in row if each is not None)


def _named(name: str, found: Iterable[Arguments]) -> Iterator[tuple[str, Arguments]]:
    return ((name, each) for each in itertools.islice(found, MOST_OF_A_PAGE))


def _looks(*ways: Arguments) -> Further:
    """Look at a page in these ways: the work that it shows first, then others by their time."""

    def look(run: OpenRun) -> Iterator[Arguments]:
        yield from ways
        for work in _works(run):
            yield {"work": work}
        for work in _works(run):
            yield from ({"work": work, **way} for way in ways)

    return look


def _works(run: OpenRun) -> Sequence[int]:
    return [run.place(work) for work in run.works()[:_MOST_WORKS]]


def _graph(run: OpenRun) -> Iterator[Arguments]:
    """Enter the dearest scopes, where the dearest ops are, and what is in the dearest scope."""
    yield from _looks()(run)
    inside = _entered(run, "")
    nodes = _told(run, "ops", {"by": "name"}).get("rows", [])[:_MOST_ROWS]
    around = [each["scope"] for each in nodes if each["scope"]]
    within = [each for path in inside[:1] for each in _entered(run, path)]
    yield from ({"at": path} for path in dict.fromkeys([*inside, *around, *within]))


def _entered(run: OpenRun, at: str) -> list[str]:
    groups = _told(run, "graph", {"at": at}).get("groups", [])
    paths = [each["path"] for each in groups if each["kind"] == "scope" and each["path"]]
    return paths[:_MOST_ROWS]


def _memory(run: OpenRun) -> Iterator[Arguments]:
    yield from _looks(*({"by": each} for each in HELD_BYS))(run)
    for allocator in _told(run, "memory").get("allocators", [])[:_MOST_ROWS]:
        yield {"at": allocator["at"]}


def _ops(run: OpenRun) -> Iterator[Arguments]:
    told = _told(run, "ops")
    yield {"by": "name"}
    yield from ({"device": at} for at, _ in enumerate(told.get("devices", [])[:_MOST_ROWS]))
    for row in told.get("rows", [])[:_MOST_TYPES]:
        yield {"by": "name", "type": row["type"]}
    yield from _looks({"by": "name"})(run)


def _source(run: OpenRun) -> Iterator[Arguments]:
    """Show each file at its dearest line."""
    files = _told(run, "code").get("files", [])[:_MOST_ROWS]
    yield from ({"file": at} for at, _ in enumerate(files) if at)
    yield from _looks()(run)


def _stacks(run: OpenRun) -> Iterator[Arguments]:
    """Show each process that was sampled."""
    count = len(_told(run, "stacks").get("processes", []))
    yield from ({"process": at} for at in range(1, min(count, _MOST_ROWS)))


def _step(run: OpenRun) -> Iterator[Arguments]:
    """Pick the steps that stand out and those that were sampled, of each work."""
    for work in _works(run):
        told = _told(run, "steps", {"work": work})
        longest = [
            each["step"]
            for what in ("slow_steps", "long_gaps")
            for each in told.get(what, {}).get("longest", [])[:_MOST_ROWS]
        ]
        sampled = told.get("sampled_steps", [])[: -_MOST_ROWS - 1 : -1]
        for number in dict.fromkeys([*sampled, *longest]):
            yield {"work": work, "step": number}


def _timeline(run: OpenRun) -> Iterator[Arguments]:
    yield from itertools.islice(timeline.further(run), _MOST_TIMELINES)


def _timeline_ranks(run: OpenRun) -> Iterator[Arguments]:
    yield from itertools.islice(timeline.further(run), _MOST_OF_RANKS)


def _told(run: OpenRun, name: str, arguments: Arguments | None = None) -> dict[str, Any]:
    """Return a document, empty where there is none. Any: JSON, see docs/web.md."""
    given = {each: str(value) for each, value in (arguments or {}).items()}
    try:
        return answer(run, name, Question(given))
    except (NoAnswer, UnreadableInput):
        return {}


# What a page is asked for beside its first look, the most important first, sorted by page.
FURTHER: Mapping[str, Further] = {
    "code": _looks({"frames": "job"}, *_METRICS),
    "graph": _graph,
    "input": _looks(),
    "memory": _memory,
    "ops": _ops,
    "parts": _looks(),
    "processes": _looks(*({"measure": each} for each in MEASURES)),
    "scopes": _looks({"by": "layer"}, *_METRICS, *({"by": "layer", **each} for each in _METRICS)),
    "source": _source,
    "stacks": _stacks,
    "step": _step,
    "steps": _looks(),
    "timeline": _timeline,
    "timeline-ranks": _timeline_ranks,
    "timeline-slice": timeline.further_slices,
    "transfers": _looks(*({"by": each} for each in BYS)),
}
