"""Say which lines of the job the Python between steps is spent in, and on what kind of thing.

The line is that of the code around the step; the kind that of the innermost call with a known one.
Gaps that watching made longer tell of shares all the same: how long gaps are, all steps tell.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tfprobe.analysis.breakdown.gap_calls import Usual, own_times
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.source_lines import is_of_library
from tfprobe.profile.activities import Call, Gap


class LineKind(Enum):
    """What Python does between steps. The value is its name in documents."""

    SLEEP = "sleep"
    SUBPROCESS = "subprocess"
    SYNC_TO_DISK = "fsync"
    COLLECTION = "collection"
    WAIT = "wait"
    NETWORK = "network"
    READS = "reads"
    GRAPH = "graph"
    LOCK = "lock"
    OUTPUT = "output"
    PYTHON = "python"

    __hash__ = object.__hash__


_KINDS: tuple[tuple[LineKind, re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (kind, re.compile(file), re.compile(function))
    for kind, file, function in (
        (LineKind.SUBPROCESS, r"/subprocess\.py$", r""),
        (
            LineKind.SUBPROCESS,
            r"^$",
            r"^(posix\.(fork|system|wait\w*|posix_spawn\w*)|_posixsubprocess)",
        ),
        (LineKind.SLEEP, r"^$", r"^time\.sleep$"),
        (LineKind.SYNC_TO_DISK, r"^$", r"^posix\.(fsync|fdatasync|sync)$"),
        (LineKind.COLLECTION, r"^$", r"^gc\.collect$"),
        (LineKind.NETWORK, r"/(socket|ssl|urllib/\w+|http/client|requests/\w+)\.py$", r""),
        (LineKind.NETWORK, r"^$", r"^_?(socket|ssl)\."),
        (
            LineKind.WAIT,
            r"/(threading|queue|selectors|concurrent/futures/\w+|multiprocessing/\w+)\.py$",
            r"^(join|wait\w*|result|acquire|select|recv\w*|get|_wait_for_tstate_lock)$",
        ),
        (LineKind.WAIT, r"^$", r"^(_thread\.\w*lock\.(acquire|__enter__)|select\.)"),
        (
            LineKind.GRAPH,
            r"tensorflow(_core)?/python/framework/(ops|op_def_library|importer)\.py$",
            r"^_?(create_op\w*|apply_op\w*|import_graph_def|add_op)$",
        ),
        (LineKind.OUTPUT, r"/(logging/\w+|json/\w+|csv|pickle|numpy/lib/npyio)\.py$", r""),
        (LineKind.OUTPUT, r"^$", r"^(builtins\.print|_io\.\w+\.(write|flush)|_?pickle\.|_json\.)"),
    )
)
_RELEASES = re.compile(r"^_thread\.\w*[lL]ock\.(__exit__|release)$")
_ACQUIRES = re.compile(r"^_thread\.\w*[lL]ock\.(acquire|__enter__)$")
_REMEMBERED = 10_000
_OF_LOOP = (Part.IDLE, Part.FETCH, Part.SYNC_WAIT)


@dataclass(frozen=True, slots=True)
class PythonLine:
    """A line of the job that Python between steps is spent in: `ratio` of the time between them.

    `calls` is how often the line made the longest call in one gap.
    """

    what: str
    file: str
    line: int
    kind: LineKind
    ratio: float
    calls: int


def python_lines(gaps: Sequence[Gap], usual: Usual | None = None) -> tuple[PythonLine, ...]:
    """Return the lines of the job between the steps of a loop, dearest first.

    `usual` is the gap that nobody watched, where watching made these longer.
    """
    total_ns = 0
    lines: dict[tuple[str, int], _Times] = {}
    for gap in gaps:
        lock = _lock_line(gap.calls)
        for each in own_times(gap, usual):
            total_ns += each.own_ns
            if each.part not in _OF_LOOP or is_of_library(each.file):
                continue
            place = _Place(each.what, each.file, each.line)
            kind = LineKind.READS if each.part is not Part.IDLE else _kind_of(gap.calls, each.at)
            # `with lock:` is no call that anybody sees, but its end is.
            if kind is LineKind.PYTHON and gap.calls[each.at].parent is None and lock:
                kind, place = LineKind.LOCK, place._replace(line=lock)
            leaf, count = place, gap.calls[each.at].count
            if kind not in (LineKind.PYTHON, LineKind.LOCK):
                leaf, count = _leaf(gap.calls, each.at, place)
            of_line = lines.setdefault((place.file, place.line), _Times())
            of_line.add(kind, leaf, each.own_ns, count)
    found = [
        PythonLine(
            what=of_line.place.what,
            file=of_line.place.file,
            line=of_line.place.line,
            kind=of_line.main,
            ratio=of_line.total_ns / (total_ns or 1),
            calls=of_line.calls,
        )
        for of_line in lines.values()
    ]
    return tuple(sorted(found, key=lambda each: -each.ratio))


class _Place(NamedTuple):
    """A call, and the line of the job that makes it."""

    what: str
    file: str
    line: int


class _Times:
    """What a line took, by kind and by what was called."""

    def __init__(self) -> None:
        self._by_kind: dict[LineKind, int] = {}
        self._by_place: dict[tuple[LineKind, _Place], tuple[int, int]] = {}

    def add(self, kind: LineKind, place: _Place, own_ns: int, count: int) -> None:
        """Add the own time of so many calls."""
        self._by_kind[kind] = self._by_kind.get(kind, 0) + own_ns
        time_ns, calls = self._by_place.get((kind, place), (0, 0))
        self._by_place[kind, place] = (time_ns + own_ns, max(calls, count))

    @property
    def total_ns(self) -> int:
        return sum(self._by_kind.values())

    @property
    def place(self) -> _Place:
        return self._dearest[1]

    @property
    def calls(self) -> int:
        return self._by_place[self._dearest][1]

    @property
    def main(self) -> LineKind:
        """Return what more than half of the time is spent on, else that it is Python."""
        kind = max(self._by_kind, key=lambda each: self._by_kind[each])
        return kind if 2 * self._by_kind[kind] > self.total_ns else LineKind.PYTHON

    @property
    def _dearest(self) -> tuple[LineKind, _Place]:
        own = [key for key in self._by_place if key[0] is self.main] or [*self._by_place]
        return max(own, key=lambda key: self._by_place[key])


def _leaf(calls: Sequence[Call], at: int, place: _Place) -> tuple[_Place, int]:
    """Return the innermost line of the job that led to a call, with what it calls there, and how
    often it does.
    """
    call = calls[at]
    while call.parent is not None:
        caller = calls[call.parent]
        if not is_of_library(caller.file):
            # TensorFlow wraps its functions in one that shortens stacks: no name to read.
            what = place.what if call.file.endswith("/traceback_utils.py") else call.function
            return _Place(what, caller.file, call.called_line or place.line), call.count
        call = caller
    return place, calls[at].count


def _kind_of(calls: Sequence[Call], at: int) -> LineKind:
    """Return the kind of the innermost call around this one, or itself, that has one."""
    position: int | None = at
    while position is not None:
        call = calls[position]
        kind = _known(call.file, call.function)
        # Queues and events take locks, too: those are waits for others.
        if _ACQUIRES.search(call.function) and position == at and call.parent is not None:
            of_library = is_of_library(calls[call.parent].file)
            kind = kind if of_library else LineKind.LOCK
        if kind is not None:
            return kind
        position = call.parent
    return LineKind.PYTHON


def _lock_line(calls: Sequence[Call]) -> int:
    """Return the line at which the code around a step gives a lock back, 0 where it has none."""
    lines = (
        call.called_line
        for call in calls
        if _RELEASES.search(call.function)
        and call.parent is not None
        and calls[call.parent].parent is None
    )
    return next(lines, 0)


@functools.lru_cache(maxsize=_REMEMBERED)
def _known(file: str, function: str) -> LineKind | None:
    return next(
        (kind for kind, files, names in _KINDS if files.search(file) and names.search(function)),
        None,
    )
